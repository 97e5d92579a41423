"""Markdown that nests or repeats until a parser gives up."""

from tests.support.hostile.registry import add


def _add(name: str, content: str) -> None:
    add(f"markdown-{name}", lambda trap: ("a.md", content.encode("utf-8", "surrogatepass")))


_add("quotes-in-quotes", "> " * 10_000 + "deep")
_add("quotes-in-quotes-on-many-lines", "\n".join(">" * n + " x" for n in range(1, 300)))
_add("lists-in-lists", "- " * 10_000 + "deep")
_add("lists-in-lists-by-indent", "\n".join("  " * n + "- x" for n in range(700)))
_add("lists-and-quotes", "> - " * 5_000 + "deep")
_add("numbered-lists", "1. " * 5_000 + "deep")
_add("list-of-many-items", "- x\n" * 2_500)
_add("list-that-counts-far", "999999999. x\n" * 100 + "9999999999. y")
_add("emphasis-without-end", "*a **a " * 10_000)
_add("emphasis-nested", "*" * 20_000 + "a" + "*" * 20_000)
_add("emphasis-mixed", "*_" * 10_000 + "a" + "_*" * 10_000)
_add("underscores", "_a" * 25_000)
_add("brackets-open", "[" * 25_000)
_add("brackets-nested", "[" * 5_000 + "a" + "]" * 5_000)
_add("brackets-and-parentheses", "[a](" * 10_000)
_add("links-in-links", "[a](<b" * 10_000)
_add("links-nested", "[" * 1000 + "a" + "](b)" * 1000)
_add("images-nested", "![" * 5_000 + "a" + "](b)" * 5_000)
_add("link-with-deep-parentheses", "[a](" + "(" * 20_000 + ")" * 20_000 + ")")
_add("backticks", "".join("a" + "`" * n for n in range(1, 600)))
_add("backticks-of-one-length", "`a``b" * 20_000)
_add("backslashes", "\\" * 100_000)
_add("entities", "&amp;&#0;&#xD800;&nosuch;" * 10_000)
_add("entities-open", "&" * 100_000)
_add("angles", "<" * 50_000)
_add("angles-open", "<a " * 20_000)
_add("comments-open", "<!-- a " * 20_000)
_add("instructions-open", "<? a " * 20_000)
_add("cdata-open", "<![CDATA[ a " * 1_500)
_add("html-blocks", "<div>\n" * 10_000)
_add("html-attributes", "<a" + " b='" * 20_000)
_add(
    "table-of-many-columns",
    "|" + "a|" * 3_000 + "\n|" + "-|" * 3_000 + "\n" + ("|" * 3_000 + "\n") * 5,
)
_add("table-of-many-rows", "|a|b|\n|-|-|\n" + "|1|2|\n" * 4_000)
_add("table-filled-up", "|" + "a|" * 2_000 + "\n|" + "-|" * 2_000 + "\n" + "|x\n" * 100)
_add("references-to-one", "[a]: " + "b" * 50_000 + "\n\n" + "[x][a] " * 2_500)
_add("references-many", "".join(f"[r{n}]: u{n}\n" for n in range(10_000)) + "\n[r1]")
_add("references-missing", "[a][b] " * 10_000)
_add("reference-with-a-long-label", f"[{'a' * 2_000}]: b\n\n[{'a' * 2_000}]")
_add("reference-open", "[a]: <" * 10_000)
_add("reference-title-open", "[a]: b '" * 10_000)
_add("headings-many", "# a\n" * 4_000)
_add("headings-underlined", "a\n=\n" * 4_000)
_add("heading-of-one-line", "# " + "a" * 1_000_000)
_add("rules", "---\n" * 5_000)
_add("fence-open", "```\n" * 20_001)
_add("fence-long", "`" * 100_000 + "\ncode")
_add("indented-code", "    a\n\n" * 4_000)
_add("front-matter-open", "---\ntitle: a\n" * 5_000)
_add(
    "front-matter-of-anchors",
    "---\ntitle: &a [*a, *a]\nb: !!python/object/apply:os.system [true]\n---\nText.",
)
_add("breaks", "a  \n" * 10_000)
_add("tabs", "\t" * 100_000 + "a")
_add("tabs-in-lists", "-\t" * 5_000 + "a")
_add("nul-bytes", "a\0b\n\n# c\0d\n")
_add("autolinks", "<http://a" * 20_000)
_add("strikes", "~~a " * 30_000)
_add("blank-lines", "a\n" + "\n" * 150_000 + "b")
_add("quote-that-goes-on", "> a\n" + "b\n" * 25_000)
_add("nothing", "")
_add("marks-only", "#\n>\n-\n*\n1.\n```\n")
