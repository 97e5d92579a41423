"""Extensions that come with Truespan: each is found by an entry point and adds rows to tables.

Must hold: the engine imports none of them, and it works without each.
"""
