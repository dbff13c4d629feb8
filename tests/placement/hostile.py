"""Words that a language could take for its own."""

import os

from hypothesis import strategies as st

NASTY = [
    *("", " ", "a b", "'", '"', "\\", "\\\\", "$(id)", "`id`", "${HOME}", "$HOME", "$$", "$$(A)", "$(A)", "a$"),
    *("a\nb", "\n", ";", "\\;", "&&", "|", "%n", "%%", "-x", "--", "*", "?", "[a]", "{a,b}", "!", "!!", "#", " # a"),
    *("~", "~root", "a=b", "\t", "\r", "no", "NULL", "0x1", "1:2", "- a", "a: b", "é", "日本", "\U0001f600"),
    *("\u2028\u0085\ufeff", "\x01\x7f", "\\x41", "@a", "+a", ":a", "<<EOF", "x" * 9000),
]  # fmt: skip
BYTES = ["\udcff", "a\udc81\udc82"]

text = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    st.text("$`'\"\\ \n%;{}()A"),
)
words = st.one_of(
    text,
    st.sampled_from(BYTES),
    st.binary(max_size=30).map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))),
)
