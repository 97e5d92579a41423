"""Markdown of answers: what is rendered, and what stays text."""

from typing import Any

from tests.page.visit import Visit

RENDER = """async (text) => {
    const { markdown } = await import('/page/common/markdown.js');
    const box = document.createElement('div');
    box.append(...markdown(text));
    for (const node of box.querySelectorAll('*')) {
        for (const { name } of [...node.attributes]) {
            if (!['href', 'start', 'class'].includes(name)) node.removeAttribute(name);
        }
    }
    return box.innerHTML;
}"""
PLAIN = (
    ("a *b* **c** _e_ ~~f~~", "<p>a <em>b</em> <strong>c</strong> <em>e</em> <s>f</s></p>"),
    ("***d***", "<p><strong><em>d</em></strong></p>"),
    ("2*3*4, snake_case_name, a * b * c", "<p>2*3*4, snake_case_name, a * b * c</p>"),
    ("**open and *also open", "<p>**open and *also open</p>"),
    ("*a **b* c**", "<p><em>a **b</em> c**</p>"),
    ("这是**重点**内容", "<p>这是<strong>重点</strong>内容</p>"),
    (r"\*plain\* and \[1\]", "<p>*plain* and [1]</p>"),
    ("`a <b> *c*` and ``d ` e``", "<p><code>a &lt;b&gt; *c*</code> and <code>d ` e</code></p>"),
    ("`open", "<p>`open</p>"),
    ("# One\n## Two ##\ntext", "<h4>One</h4><h5>Two</h5><p>text</p>"),
    ("#not a heading", "<p>#not a heading</p>"),
    ("- a\n  - c\n    more\n- d", "<ul><li>a<ul><li>c\nmore</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b\n\n5. c", '<ol start="3"><li>a</li><li>b</li><li>c</li></ol>'),
    ("1. a\n   - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
    ("- a\n\n  b\n- c", "<ul><li><p>a</p><p>b</p></li><li>c</li></ul>"),
    ("It was\n1984. A cold day.", '<p class="lines">It was\n1984. A cold day.</p>'),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("```js\nif (a < b) *x*\n```\nend", "<pre><code>if (a &lt; b) *x*</code></pre><p>end</p>"),
    ("~~~\nnot closed", "<pre><code>not closed</code></pre>"),
    ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    (
        "| a | b |\n|---|--:|\n| `x` | 1 \\| 2 |\n| y |\n\nend",
        '<div class="table-box"><table><thead><tr><th>a</th><th class="end">b</th></tr></thead>'
        '<tbody><tr><td><code>x</code></td><td class="end">1 | 2</td></tr>'
        '<tr><td>y</td><td class="end"></td></tr></tbody></table></div><p>end</p>',
    ),
    ("a | b", "<p>a | b</p>"),
    (
        "> a | b\n> 1 | 2",
        '<blockquote><div class="table-box"><table><thead><tr><th>a</th><th>b</th></tr></thead>'
        "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div></blockquote>",
    ),
    (
        "[the site](https://example.org/a_(b)) <https://example.org>",
        '<p><a href="https://example.org/a_(b)">the site<small> (example.org)</small></a> '
        '<a href="https://example.org/">https://example.org</a></p>',
    ),
    ("", ""),
)
HOSTILE = (
    "<script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">",
    "![a](https://example.org/pixel.png)", "![a](x) [b](javascript:document.title='taken')",
    "[a](JaVaScRiPt:alert(1)) [b](data:text/html,<script>) [c](vbscript:x)",
    "[d](//example.org) [e](/v1/me)",
    "[a](java\tscript:alert(1)) [b](&#106;avascript:alert(1)) [c]( javascript:alert(1) )",
    "[bank](https://bank.example@evil.example/)", '[a](https://example.org" onclick="alert(1))',
    '[a](https://example.org "x" onmouseover="alert(1)")',
    "[<img src=x onerror=alert(1)>](https://example.org)",
    '<https://example.org/onerror="><script>alert(1)</script>',
    "| <script>a</script> | b |\n|---|---|\n| <svg onload=alert(1)> | x |",
    "```html\n</code></pre><script>alert(1)</script>\n```", "`</code><script>alert(1)</script>`",
    "- <iframe src=javascript:alert(1)>\n  > <style>*{display:none}</style>",
)  # fmt: skip
LONG = (
    "[", "![](", "*", "**a ", "_a*", "`", "` `` ", "> ", "- ", "  - ", "|", "a|\n-|\n", "#",
    "<https://", "\\", "~~", "1. ", "[a](b(", "\n", "***a*b**",
)  # fmt: skip
"""Pieces whose repetition makes naive parsers slow or deep."""
CHECK = """async (text) => {
    const { markdown } = await import('/page/common/markdown.js');
    const box = document.createElement('div');
    box.append(...markdown(text));
    const tags = new Set([...box.querySelectorAll('*')].map((node) => node.tagName.toLowerCase()));
    const links = [...box.querySelectorAll('a')];
    const nodes = [...box.querySelectorAll('*')];
    const names = new Set(nodes.flatMap((node) => node.getAttributeNames()));
    return {
        tags: [...tags], names: [...names],
        links: links.map((link) => [link.protocol, link.host, link.rel, link.referrerPolicy]),
        text: box.textContent.length,
    };
}"""
LINES = (
    (
        "The boathouse had stood beside the brass key for as long as anyone in\nthe village could "
        "remember, and nobody thought to ask about the\nsignal box.",
        False,
    ),
    (
        "Each of those nights has a page of its own in the book of\nthe watch, and whoever reads "
        "them in one sitting will understand why this handbook\nexists.",
        False,
    ),
    (
        "worried her.\nIt was the brass key that worried her most of all the things in the house,\n"
        "and the lantern that hung beside the door of the chapel for many years\nand more.",
        False,
    ),
    ("Shall I compare thee to a summer’s day?\nThou art more lovely and more temperate:", True),
    (
        "But soft, what light through yonder window breaks?\nIt is the east, Juliet is the sun.",
        True,
    ),
    ("so much depends\nupon\n\na red wheel\nbarrow", True),
    (
        "- the oil stands above the brass line that is engraved on the glass\n- the wick is dry",
        True,
    ),
    ("one line", False),
)
"""Paragraphs, and whether their line breaks are significant."""
TAGS = {
    "p", "em", "strong", "s", "code", "pre", "h4", "h5", "h6", "ul", "ol", "li", "blockquote",
    "hr", "table", "thead", "tbody", "tr", "th", "td", "a", "small", "div",
}  # fmt: skip
NAMES = {
    "href", "title", "rel", "target", "referrerpolicy", "class", "scope", "start", "tabindex",
    "role", "aria-label",
}  # fmt: skip


def test_markdown_of_an_answer_creates_known_elements_only(visit: Visit) -> None:
    rendered = [visit.page.evaluate(RENDER, text) for text, _ in PLAIN]
    assert [
        (text, found)
        for (text, wanted), found in zip(PLAIN, rendered, strict=True)
        if found != wanted
    ] == []

    keeps = visit.page.evaluate(
        """async (all) => {
            const { keepsLines } = await import('/page/common/lines.js');
            return all.map((text) => keepsLines(text));
        }""",
        [text for text, _ in LINES],
    )
    assert keeps == [kept for _, kept in LINES]

    parts = [text[:end] for text in HOSTILE for end in (*range(0, 60, 7), None)]
    for text in [*parts, *(piece * 4000 for piece in LONG)]:
        found: dict[str, Any] = visit.page.evaluate(CHECK, text)
        assert set(found["tags"]) <= TAGS, text
        assert set(found["names"]) <= NAMES, text
        for protocol, host, *rules in found["links"]:
            assert (protocol, rules) == ("https:", ["noopener noreferrer nofollow", "no-referrer"])
            assert "evil" not in host
    assert visit.page.title() != "taken"


def test_parts_of_a_table_are_shown_as_one_table(visit: Visit) -> None:
    parts = [
        "Meal | Limit\n" + "\n".join(f"Meal {at} | {at} EUR" for at in places)
        for places in ((1, 2), (3, 4))
    ]
    texts = ["\n\n".join(parts), f"{parts[0]}\n\nOr:\n\n{parts[1]}", f"{parts[0]}\n\nA | B\n1 | 2"]

    shown = visit.page.evaluate(
        """async (texts) => {
            const { passageBlocks } = await import('/page/reading/blocks.js');
            return texts.map((text) => {
                const box = document.createElement('div');
                document.body.append(box);
                box.append(...passageBlocks(text));
                const seen = box.innerText.split('\\n').filter((line) => line.trim());
                const tables = box.querySelectorAll('table').length;
                return [box.textContent === text, tables, seen.length];
            });
        }""",
        texts,
    )

    # The whole text is there, and the repeated header is not shown.
    assert shown == [[True, 1, 5], [True, 2, 7], [True, 2, 5]]


def test_tables_keep_empty_cells_in_their_columns(visit: Visit) -> None:
    # The store has no spaces at the ends of a row.
    rows = ("Name | Rent | City", "Ann | 300 |", "Bob |  | Rome", "Cy | | Paris", "| 200 | Oslo")
    passage = "\n".join((*rows, "|  |", "|  | Kyiv", "Di |  |"))

    grids = visit.page.evaluate(
        """async (text) => {
            const { passageBlocks } = await import('/page/reading/blocks.js');
            const { markdown } = await import('/page/common/markdown.js');
            return [passageBlocks(text), markdown(text)].map((nodes) => {
                const box = document.createElement('div');
                document.body.append(box);
                box.append(...nodes);
                const cells = (row) => [...row.cells].map((cell) => cell.innerText.trim());
                return [box.textContent, [...box.querySelectorAll('tr')].map(cells)];
            });
        }""",
        passage,
    )

    wanted = [
        ["Name", "Rent", "City"], ["Ann", "300", ""], ["Bob", "", "Rome"], ["Cy", "", "Paris"],
        ["", "200", "Oslo"], ["", "", ""], ["", "", "Kyiv"], ["Di", "", ""],
    ]  # fmt: skip
    assert [rows for _, rows in grids] == [wanted, wanted]
    assert grids[0][0] == passage


def test_markdown_tables_keep_cells_beyond_a_short_first_row(visit: Visit) -> None:
    shown = visit.page.evaluate(RENDER, "Rents\nAnn | 300 |\nBob | 200 | Rome")
    assert shown.count("<th>") == 3
    assert "<td>Rome</td>" in shown
