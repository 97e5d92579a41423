"""Recognition of world ids: UUIDs as Python writes them."""

from typing import Any

from tests.support.rows import each_row
from truespan.store.engines.session import is_world_id

ID = "6f1d3c1e-5b0e-5d0a-9d7c-7a1c54b6e0a1"


def test_world_id_is_recognised() -> None:
    assert is_world_id(ID)


@each_row("text", [
    *("", "world", ID[:-1], f"{ID}0", f"{ID}\n", f" {ID}", ID.upper(), ID.replace("-", "")),
    *(f"{{{ID}}}", f"urn:uuid:{ID}", ID.replace("-", "_"), ID.replace("6", "\u0666")),
    *(ID.replace("5b0e-", "5b0-e"), ID.replace("c", "g"), ID.encode(), None, 36),
])  # fmt: skip
def test_another_spelling_is_a_name(text: Any) -> None:
    assert not is_world_id(text)
