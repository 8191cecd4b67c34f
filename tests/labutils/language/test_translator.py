"""Finished English text is recognized as the messages that it was made of, and all else stays as it is."""

import time

import pytest

from labutils.language.template import Template
from labutils.language.translator import Translator

CATALOG = {
    "the last {count} of {n} {of} were not written": "{n} 个{of}中最后 {count} 个没有写入",
    "elements of {name}": "{name} 的元素",
    "only {count} element{plural} of {array}": "{array} 只有 {count} 个元素",
    " (line {line}: `{source}`)": "（第 {line} 行：`{source}`）",
    ", {count} lanes masked off.": "，关闭 {count} 个通道。",
    "loads {many}": "加载 {many}",
    "rank{plural} {numbers}": "rank {numbers}",
    "in {name} {what}": "在 {name} 中，{what}",
    " in {path}: {following}": " {path}：{following}",
    "{who} loads {what} of {where}": "{who} {what} {where}",
    "loads {what} of {where}": "{what} 从{where}加载",
    "are wrong in one row": "有一行错误",
    "What is wrong: ": "错误：",
    "{who} {verb} {array}[{index}], outside the array": "{who}{verb} {array}[{index}]，超出数组",
    "program {program}": "第 {program} 个程序",
    "reads": "读取",
    " and ": "和",
    "rows": "行",
    "sectors": "扇区",
    "Mask it: mask = offs < n, for every load.": "屏蔽它：每次加载 mask = offs < n。",
    "Start again.": "重新开始。",
    "block {block}: {detail}": "块 {block}：{detail}",
    "one\ntext": "一段",
    ".": "。",
    ":": "：",
    ",": "，",
    ";": "；",
}
T = Translator(CATALOG, "zh")


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("the last 3 of 1,025 elements of out were not written", "1,025 个 out 的元素中最后 3 个没有写入"),
        ("The last 1 of 2 rows were not written.", "2 个行中最后 1 个没有写入。"),
        ("only 1 element of x", "x 只有 1 个元素"),
        ("only 2 elements of x", "x 只有 2 个元素"),
        (
            "What is wrong: program 0 reads x[2], outside the array (line 25: `x = tl.load(x, rows)`)",
            "错误：第 0 个程序读取 x[2]，超出数组（第 25 行：`x = tl.load(x, rows)`）",
        ),
        ("Start again. Mask it: mask = offs < n, for every load.", "重新开始。屏蔽它：每次加载 mask = offs < n。"),
        ("Loads x, y, 5 lanes masked off.", "加载 x, y，关闭 5 个通道。"),
        ("loads x (line 2: `x`): rows", "加载 x（第 2 行：`x`）：行"),
        ("Ranks 0, 1: rows", "rank 0, 1：行"),
        ("What is wrong: loads x: sectors", "错误：加载 x：扇区"),
        ("  in week: 06_unit/a", "   week：06_unit/a"),
        ("What is wrong: loads x of rows", "错误：x 从行加载"),
        ("out are wrong in one row", "out 有一行错误"),
        ("  ✓ rows", "  ✓ 行"),
        ("rows and sectors", "行和扇区"),
        ("rows\n  sectors", "行\n  扇区"),
        ("one\ntext", "一段"),
        ("the last 1 of 2 rows were not written (line 2: `a; b`)", "2 个行中最后 1 个没有写入（第 2 行：`a; b`）"),
        ("loads x rows", "加载 x 行"),
        ("ValueError: rows and no more", "ValueError: rows and no more"),
        ("rows (line 2: `x`). Start again.", "行（第 2 行：`x`）。重新开始。"),
        ("rows: `a`; sectors", "行：`a`；扇区"),
        ("block 0: rows", "块 0：行"),
        ("block 0 and 1 x: rows", "block 0 和 1 x：行"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_text_is_made_of_its_messages(english, chinese):
    assert T.text(english) == chinese


@pytest.mark.parametrize(
    "text",
    [
        " 12    8  50% | rows and sectors",
        "What a learner wrote here",
        "x = rows[0] + 1",
        "tensor([1, 2])",
        "06_unit/name",
        "```\nrows\n```",
    ],
)
def test_what_is_no_message_stays(text):
    assert T.text(text) == text


def test_columns_keep_their_places():
    english = "rows        sectors   1.5\nrows        sectors   2.5"
    chinese = "行          扇区      1.5\n行          扇区      2.5"
    assert T.text(english) == chinese


def test_html_keeps_its_tags():
    page = (
        '<html lang="en"><style>rows { }</style><p title="rows">What is wrong: sectors</p>'
        '<img alt="x &lt; rows"><pre translate="no">rows</pre><b>rows</b> &amp; <i>sectors</i></html>'
    )
    assert T.page(page) == (
        '<html lang="zh"><style>rows { }</style><p title="行">错误：扇区</p>'
        '<img alt="x &lt; rows"><pre translate="no">rows</pre><b>行</b> &amp; <i>扇区</i></html>'
    )


def test_a_template_takes_each_literal_where_it_occurs_first():
    template = Template("{a} of {b} is {c}", "")
    assert list(template.match("1 of 2 of 3 is is 4")) == [["1", "2 of 3", "is 4"]]
    assert list(template.match("1 of 2")) == []
    assert list(Template("of {a} of", "").match("of of")) == []
    assert list(Template("{a} {b}s", "").match("1 2 3s")) == [["1", "2 3"], ["1 2", "3"]]


@pytest.mark.parametrize(
    "text",
    ["rows and " * 20_000, "the last of " * 10_000, "(" * 50_000 + "rows", "a. " * 30_000, "rows  " * 20_000],
    ids=["joined", "literals", "brackets", "sentences", "columns"],
)
def test_a_hostile_text_takes_no_time(text):
    begin = time.process_time()
    T.text(text)
    assert time.process_time() - begin < 5
