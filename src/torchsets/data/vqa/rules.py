"""How two published models turn questions into words and answers into classes.

The first is the soft attention of Zhang, Hare and Prügel-Bennett (2018), the second BAN of Kim, Jun
and Zhang (2018). Numbers can be compared with theirs only if every odd rule is kept.
"""

import re

_MARKS = ';/[]"{}()=+\\_-><@`,?!'
_MARK = re.compile(f"[{re.escape(_MARKS)}]")
_MARK_AT_A_SPACE = re.compile(f"(?<= )[{re.escape(_MARKS)}]|[{re.escape(_MARKS)}](?= )")
_COMMA_IN_A_NUMBER = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
_NOT_IN_A_WORD = re.compile("[^a-z0-9 ]")
_ARTICLES = frozenset(("a", "an", "the"))
_NUMBERS = "zero one two three four five six seven eight nine ten".split()
_DIGITS = {"none": "0"} | {word: str(value) for value, word in enumerate(_NUMBERS)}

# Endings with an apostrophe, and the beginnings that take them.
_CONTRACTIONS = {
    "n't": "ai are ca could did do does had has have is might must need ought sha should was were "
    "wo would",
    "n't've": "could had might should would",
    "'d": "he how it someone something there they where who you",
    "'d've": "he it she somebody someone something there they we who you",
    "'ll": "how it somebody someone something they what who why y'all you",
    "'re": "there they what why you",
    "'s": "he how somebody someone that there what when where who why",
    "'ve": "could might must not should they we what where who would y'all'd you",
    "": "ma'am o'clock 'ow's'at 'twas y'all",
}


def question_words(question: str) -> list[str]:
    """The words of a question for the soft attention model.

    Lower case, without the last character (a question mark, as a rule) and without all that is no
    letter from a to z, digit or space; then split at each single space. So two spaces have an empty
    word between them, which counts like any other.

    Example:
        >>> question_words("What's on  top?")
        ['whats', 'on', '', 'top']
    """
    return _NOT_IN_A_WORD.sub("", question.lower()[:-1]).split(" ")


def ban_question_words(question: str) -> list[str]:
    """The words of a question for BAN, which reads the first 14 of them.

    Lower case, without commas and question marks; ``'s`` is a word of its own.

    Example:
        >>> ban_question_words("What's on  top, please?")
        ['what', "'s", 'on', 'top', 'please']
    """
    lower = question.lower().replace(",", "").replace("?", "")
    return lower.replace("'s", " 's").split()


def normalise_answer(answer: str) -> str:
    """An answer without punctuation, for the soft attention model.

    A mark at a space is deleted and any other becomes a space; in ``2,000`` the comma is deleted.
    Where there is no mark, the answer stays as it is, periods included.

    Example:
        >>> normalise_answer("t-shirt"), normalise_answer("2,000"), normalise_answer("u.s.")
        ('t shirt', '2000', 'u.s.')
    """
    if not _MARK.search(answer):
        return answer
    answer = _MARK_AT_A_SPACE.sub("", answer)
    if _COMMA_IN_A_NUMBER.search(answer):
        answer = answer.replace(",", "")
    return _PERIOD.sub("", _MARK.sub(" ", answer)).strip()


def ban_normalise_answer(answer: str) -> str:
    """An answer as BAN names its class.

    A mark is deleted wherever it occurs if the answer has it next to a space somewhere, or has a
    comma between digits; else it becomes a space. Then lower case, number words as digits, no
    articles, and apostrophes in contractions.

    Example:
        >>> ban_normalise_answer("The two dogs dont run")
        "2 dogs don't run"
    """
    has_number = _COMMA_IN_A_NUMBER.search(answer) is not None
    text = answer
    for mark in _MARKS:
        at_a_space = f"{mark} " in answer or f" {mark}" in answer
        text = text.replace(mark, "" if at_a_space or has_number else " ")
    words = (_DIGITS.get(word, word) for word in _PERIOD.sub("", text).lower().split())
    return " ".join(_SPELT.get(word, word) for word in words if word not in _ARTICLES)


def _spellings() -> dict[str, str]:
    """Contractions with one apostrophe missing, and how they are written."""
    spelt = {}
    for ending, beginnings in _CONTRACTIONS.items():
        for beginning in beginnings.split():
            whole = beginning + ending
            for place, character in enumerate(whole):
                if character == "'":
                    spelt[whole[:place] + whole[place + 1 :]] = whole
    return spelt | {"somebody'd": "somebodyd"}  # as the official evaluation has it


_SPELT = _spellings()
