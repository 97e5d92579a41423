"""The support check on tables: a number or name counts in its own row and column."""

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.rows import each_row
from tests.unit.test_support import NAME, NEGATION, NUMBER, check_answer, passage
from truespan.types.answer import SupportReason
from truespan.types.trust import Visible

pytestmark = pytest.mark.needs_extension

RENTS = replace(
    passage("City | Rent | Deposit\nBerlin | 300 | 900\nHamburg | 420 | 1260\nBonn | 510 | 1530"),
    title="May",
    chapter="May",
    section="May",
)
STAFF = passage(
    "Name | Team | Office | Since\nAnna Weber | Sales | Leipzig | 2019\n"
    "Paul Kern | Legal | Bonn | 2021\nRita Moss | Sales | Bonn | 2023"
)
REVENUE = replace(
    passage("Quarter | 2023 | 2024\nQ1 | 110 | 140\nQ2 | 120 | 155\nQ3 | 131 | 162"),
    chapter="Revenue",
    section="Revenue",
)
NO_HEADER = passage("Berlin | 300 | 900\nHamburg | 420 | 1260")
COUNCIL = passage("The council has not yet agreed to the tariff. The mayor has yet to sign it.")


@proves("support.sentences")
@each_row(("source", "sentence", "reasons"), [
    (RENTS, "The rent in Berlin is 300 [1].", ()),
    (RENTS, "In May the rent in Hamburg was 420 [1].", ()),
    (RENTS, "Berlin costs 300 and Hamburg 420 in rent [1].", ()),
    (RENTS, "The rent in Berlin is 420 [1].", (NUMBER,)),
    (RENTS, "The deposit in Berlin is 300 [1].", (NUMBER,)),
    (RENTS, "Hamburg's deposit is 900 [1].", (NUMBER,)),
    (RENTS, "The rent in Bonn is 1530 [1].", (NUMBER,)),
    (STAFF, "Anna Weber works in Leipzig [1].", ()),
    (STAFF, "Rita Moss has been in Sales since 2023 [1].", ()),
    (STAFF, "Since 2019 Anna Weber works in the Leipzig office [1].", ()),
    (STAFF, "Paul Kern and Rita Moss work in Bonn [1].", ()),
    (STAFF, "Anna Weber works in Bonn [1].", (NAME,)),
    (STAFF, "Paul Kern is in the Sales team [1].", (NAME,)),
    (STAFF, "Rita Moss has been there since 2021 [1].", (NUMBER,)),
    (REVENUE, "Revenue in Q2 of 2024 was 155 [1].", ()),
    (REVENUE, "Revenue rose from 110 in Q1 2023 to 162 in Q3 2024 [1].", ()),
    (REVENUE, "Revenue in Q2 of 2023 was 155 [1].", (NUMBER,)),
    (REVENUE, "Revenue in Q3 of 2024 was 155 [1].", (NUMBER,)),
    (NO_HEADER, "Berlin has 300 and 900 [1].", ()), (NO_HEADER, "Berlin has 420 [1].", (NUMBER,)),
    (COUNCIL, "The council has agreed to the tariff [1].", (NEGATION,)),
    (COUNCIL, "The council has not agreed to the tariff yet [1].", ()),
    (COUNCIL, "The mayor has signed the tariff [1].", (NEGATION,)),
])  # fmt: skip
def test_claim_needs_its_own_row_and_column(
    source: Visible, sentence: str, reasons: tuple[SupportReason, ...]
) -> None:
    [judged] = check_answer(sentence, [source]).sentences
    assert (judged.supported, judged.reasons) == (not reasons, reasons)
