"""Search and answer in eight languages and across them, in worlds of both models.

Each paragraph of XQuAD is a document of a world, one world a language. Questions are asked in the
language of the world and in English: hybrid search should find the paragraph, and an answer should
be given. Asked of the paragraphs of all other articles, a question should be refused. Run it with
`python -m bench.language_worlds`; with `--full` 500 questions are asked, otherwise 150, none of
which chose the constants of evidence.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from math import log2
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import truespan
from bench.languages import LANGUAGES, RANKS, Material, read
from bench.material import shared_data
from bench.report import Figure, Options, at_least, at_most, run, say
from truespan.engine.world import World

CHOOSING = 150
"""Number of questions that chose the constants, and of those that are asked by default."""
GOALS = ("en", "de", "ru", "tr", "th", "ar")
"""Languages of the mean."""


def measure(options: Options) -> list[Figure]:
    """Return nDCG, refusals and CPU time of both models."""
    folder = shared_data("xquad")
    if folder is None:
        say("skipped: there is no shared/data/xquad beside the project")
        return []
    asked = choose_questions(500 if options.full else CHOOSING)
    return [*measure_model("multilingual", folder, asked), *measure_model("local", folder, asked)]


def choose_questions(count: int) -> list[int]:
    """Return the numbers of questions that did not choose the constants."""
    choosing = set(random.Random(1).sample(range(1190), CHOOSING))
    others = [number for number in range(1190) if number not in choosing]
    return sorted(random.Random(2).sample(others, count))


def measure_model(model: str, folder: Path, asked: list[int]) -> Iterator[Figure]:
    """Yield the figures of one model."""
    english = read(folder / "xquad.en.json")
    found: dict[tuple[str, str], float] = {}
    spent = 0.0
    with TemporaryDirectory(prefix="truespan-bench-") as place:
        library = truespan.open(Path(place) / "library", create=True)
        for language in LANGUAGES:
            path = folder / f"xquad.{language}.json"
            material, world = read(path), library.create_world(language, model=model)
            start = time.process_time()
            ids = [f"p{number}" for number in range(len(material.paragraphs))]
            world.add_texts(material.paragraphs, ids=ids, language=language)
            spent += time.process_time() - start
            for source in dict.fromkeys((language, "en")):
                questions = english if source == "en" else material
                scores = [search(world, questions, material, number) for number in asked]
                found[source, language] = fmean(scores)
                label = f"{model}, {source} > {language}"
                yield Figure(f"{label}: nDCG@{RANKS}", fmean(scores), "")
                refused, answered = answer(world, questions, material, asked, articles(path))
                yield Figure(f"{label}: refused", 100 * refused, "%", target=at_most(5))
                yield Figure(f"{label}: absent, answered", 100 * answered, "%", target=at_most(10))
    same = [found[language, language] for language in GOALS]
    yield Figure(f"{model}: mean of same language", fmean(same), "", target=at_least(0.97))
    across = [found["en", language] for language in GOALS if language != "en"]
    yield Figure(f"{model}: mean across languages", fmean(across), "", target=at_least(0.85))
    texts = len(LANGUAGES) * len(english.paragraphs)
    yield Figure(f"{model}: CPU of ingesting a paragraph", 1000 * spent / texts, "ms")


def search(world: World, questions: Material, material: Material, number: int) -> float:
    """Return the nDCG of one question, which has one right document."""
    found = world.search(questions.questions[number], top_k=15, floor=0.0, mode="hybrid").passages
    names = list(dict.fromkeys(Path(passage.source).stem for passage in found))[:RANKS]
    right = f"p{material.answers[number]}"
    return 1 / log2(names.index(right) + 2) if right in names else 0.0


def answer(
    world: World, questions: Material, material: Material, asked: list[int], article: list[int]
) -> tuple[float, float]:
    """Return the share of questions refused, and of those answered from other articles alone."""
    documents = {Path(one.name).stem: one.doc_id for one in world.documents.list()}
    refused = answered = 0
    for number in asked:
        question, own = questions.questions[number], article[material.answers[number]]
        others = [documents[f"p{place}"] for place, one in enumerate(article) if one != own]
        refused += world.answer(question).mode == "fallback"
        answered += world.answer(question, documents=others).mode != "fallback"
    return refused / len(asked), answered / len(asked)


def articles(path: Path) -> list[int]:
    """Return the number of the article of each paragraph."""
    listed = json.loads(path.read_text("utf-8"))["data"]
    return [number for number, one in enumerate(listed) for _ in one["paragraphs"]]


if __name__ == "__main__":
    run("bench.language_worlds", __doc__, measure)
