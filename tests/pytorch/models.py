"""Tiny random models of sentence-transformers, made without a download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.onnx_maker import WORDS

SIZE = 32
"""Dimensions of a vector, and maximum number of tokens of a text."""


def _configuration(family: str = "Bert", **options: Any) -> Any:
    import transformers  # pyright: ignore[reportMissingImports]

    kind = getattr(transformers, f"{family}Config")
    return kind(
        vocab_size=len(WORDS) + 4,
        hidden_size=SIZE,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        # Positions of RoBERTa begin after the number of the padding token.
        max_position_embeddings=SIZE + 1,
        pad_token_id=0,
        **options,
    )


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast  # pyright: ignore[reportMissingImports]

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=SIZE,
    ).save_pretrained(folder)


def save_encoder(
    folder: Path,
    *,
    pooling: str = "mean",
    prompts: dict[str, str] | None = None,
    seed: int = 1,
    family: str = "Bert",
) -> Path:
    """Save a model that gives a vector for each text; `family` is Bert or Roberta."""
    import torch  # pyright: ignore[reportMissingImports]
    import transformers  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    network = getattr(transformers, f"{family}Model")
    network(_configuration(family), add_pooling_layer=False).save_pretrained(folder)
    _save_tokenizer(folder)
    (folder / "1_Pooling").mkdir()
    package = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{package}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{package}.Pooling"},
    ]
    files = {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": SIZE, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": SIZE,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
        },
        "config_sentence_transformers.json": {"prompts": prompts or {}},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def save_cross_encoder(folder: Path, *, labels: int = 1) -> Path:
    """Save a model that gives numbers for each pair of texts."""
    import torch  # pyright: ignore[reportMissingImports]
    from transformers import BertForSequenceClassification  # pyright: ignore[reportMissingImports]

    torch.manual_seed(1)
    BertForSequenceClassification(_configuration(num_labels=labels)).save_pretrained(folder)
    _save_tokenizer(folder)
    return folder
