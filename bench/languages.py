"""Compare the default and the multilingual model on questions in eight languages.

XQuAD has the same 240 paragraphs and 1,190 questions in each language. It is read from
`shared/data/xquad` (`xquad.de.json` and so on) where that is at hand. A question should find its
paragraph, by similarity alone: in its own language, and asked in English. Run it with
`python -m bench.languages`; with `--full` all questions are asked, otherwise 500.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy

from bench.material import shared_data
from bench.report import Figure, Options, at_least, at_most, run, say
from truespan.extensions.models.multilingual import MultilingualEmbedder
from truespan.providers.local import INPUT_LIMIT, LocalEmbedder, LocalModel
from truespan.providers.onnx_embedder import OnnxEmbedder

LANGUAGES = ("en", "de", "es", "ru", "zh", "tr", "th", "ar")
QUESTIONS = 500
RANKS = 10
"""Number of results that nDCG looks at."""


@dataclass(frozen=True, slots=True)
class Material:
    """Paragraphs, questions, and the number of the paragraph that answers each question."""

    paragraphs: list[str]
    questions: list[str]
    answers: list[int]


def measure(options: Options) -> list[Figure]:
    """Return nDCG of both models in each language and across languages, and their CPU time."""
    folder = shared_data("xquad")
    if folder is None:
        say("skipped: there is no shared/data/xquad beside the project")
        return []
    material = {language: read(folder / f"xquad.{language}.json") for language in LANGUAGES}
    total = len(material["en"].questions)
    count = total if options.full else QUESTIONS
    asked = sorted(random.Random(1).sample(range(total), count))
    models = MultilingualEmbedder(threads=1), LocalEmbedder(LocalModel(), threads=1)
    (ours, own), (theirs, other) = (scores(model, material, asked) for model in models)
    figures = [
        Figure(f"nDCG@{RANKS} {name}", found, "", "default model", theirs[name])
        for name, found in ours.items()
    ]
    ratio = own / other
    cost = Figure("CPU a paragraph", own, "ms", "default model", other, ratio, at_most(0.25))
    across = [found for name, found in ours.items() if ">" in name]
    mean = Figure("mean across languages", sum(across) / len(across), "", target=at_least(0.8))
    return [*figures, mean, cost]


def read(path: Path) -> Material:
    """Return the material of one language."""
    found = Material([], [], [])
    for article in json.loads(path.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                found.questions.append(question["question"])
                found.answers.append(len(found.paragraphs))
            found.paragraphs.append(paragraph["context"])
    return found


def scores(
    model: OnnxEmbedder, material: dict[str, Material], asked: list[int]
) -> tuple[dict[str, float], float]:
    """Return nDCG by languages, such as "en > de", and the CPU time of a paragraph in ms."""
    say(f"embedding with {model.profile.model}")
    found: dict[str, float] = {}
    spent = 0.0
    english = numpy.empty(0)
    for language, one in material.items():
        start = time.process_time()
        paragraphs = numpy.stack([embed(model, text) for text in one.paragraphs])
        spent += time.process_time() - start
        queries = [model.embed_query(one.questions[number]) for number in asked]
        own = numpy.stack([numpy.frombuffer(vector, "<f4") for vector in queries])
        answers = numpy.array(one.answers)[asked]
        found[language] = ndcg(own @ paragraphs.T, answers)
        if language == "en":
            english = own
        else:
            found[f"en > {language}"] = ndcg(english @ paragraphs.T, answers)
    return found, 1000 * spent / sum(len(one.paragraphs) for one in material.values())


def embed(model: OnnxEmbedder, text: str) -> numpy.ndarray:
    """Return the vector of a text; of its beginning, if it is longer than the model reads."""
    while model.count_query(text) > INPUT_LIMIT:
        text = text[: len(text) * 9 // 10]
    [vector] = model.embed_documents([text])
    return numpy.frombuffer(vector, "<f4")


def ndcg(similarities: numpy.ndarray, answers: numpy.ndarray) -> float:
    """Return the mean nDCG of questions that have one right result each."""
    right = similarities[numpy.arange(len(answers)), answers]
    ranks = (similarities > right[:, None]).sum(axis=1) + 1
    return float(numpy.where(ranks <= RANKS, 1 / numpy.log2(ranks + 1), 0).mean())


if __name__ == "__main__":
    run("bench.languages", __doc__, measure)
