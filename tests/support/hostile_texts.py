"""Texts that are made to be expensive, as patterns that are repeated."""

HOSTILE_TEXTS = {
    "prose": "The tide comes in twice a day. Mr. Osric counts it! Why? ",
    "unclosed quotes": "“He said. ",
    "unclosed straight quotes": '"He said. ',
    "brackets": "([{<a. ",
    "punctuation": ".?!… ",
    "abbreviations": "Mr. e.g. U.S. ",
    "no spaces": "abc.Def!Ghi?",
    "one token": "a",
    "combining marks": "a\u0301\u0302\u0303. ",
    "only combining marks": "\u0301",
    "right to left": "שלום עולם. מה שלומך? ",
    "emoji": "👩\u200d👩\u200d👧. 😀",
    "only emoji": "😀",
    "ideographs": "我。你！",
    "line breaks": "a\n",
    "paragraphs": "a\n\n",
    "headings": "CHAPTER I\n\n",
    "digits": "12-",
}
