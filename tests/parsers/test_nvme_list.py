# ruff: noqa: E501, W291
"""NVMe lists: tables and JSON of all versions, and what a list cannot tell."""

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.nvme_list import NvmeList, NvmeListed, parse_nvme_list

OLD = """\
Node             SN                   Model                                    Namespace Usage                      Format           FW Rev
---------------- -------------------- ---------------------------------------- --------- -------------------------- ---------------- --------
/dev/nvme0n1     SER0000000000001     ACME SSD 9000 PRO 3.84TB                 1           3.84  TB /   3.84  TB    512   B +  0 B   FW000001
/dev/nvme1n1     SN: 00002            Small Drive                              1         100.00  GB / 400.09  GB      4 KiB +  8 B   1.0
/dev/nvme10n1    SER0000000000003     BIGDISK-7-T                              1           1,02  TB /   7,68  TB    512   B +  0 B   5.3.0-rc
"""
NEW = """\
Node                  Generic               SN                   Model                                    Namespace  Usage                      Format           FW Rev  
--------------------- --------------------- -------------------- ---------------------------------------- ---------- -------------------------- ---------------- --------
/dev/nvme0n1          /dev/ng0n1            SER0000000000001     ACME SSD 9000 PRO 3.84TB                 0x1          3.84  TB /   3.84  TB    512   B +  0 B   FW000001
/dev/nvme1n1          /dev/ng1n1            SN: 00002            Small Drive                              0x1        100.00  GB / 400.09  GB      4 KiB +  8 B   1.0     
/dev/nvme10n1         /dev/ng10n1           SER0000000000003     BIGDISK-7-T                              0x1          1,02  TB /   7,68  TB    512   B +  0 B   5.3.0-rc
"""
THREE = (
    NvmeListed(controller="nvme0", namespaces=("nvme0n1",), model="ACME SSD 9000 PRO 3.84TB", firmware="FW000001"),
    NvmeListed(controller="nvme1", namespaces=("nvme1n1",), model="Small Drive", firmware="1.0"),
    NvmeListed(controller="nvme10", namespaces=("nvme10n1",), model="BIGDISK-7-T", firmware="5.3.0-rc"),
)
SECRETS = ("SER0000", "00002", "nqn.", "uuid")


def reasons(listed: NvmeList) -> dict[str, str]:
    return {gap.fact: gap.reason for gap in listed.gaps}


def models(text: str) -> dict[str | None, str | None]:
    return {drive.controller: drive.model for drive in parse_nvme_list(text).drives}


@pytest.mark.parametrize("text", [OLD, NEW])
def test_tables_by_their_columns(text: str) -> None:
    listed = parse_nvme_list(text)
    assert listed.drives == THREE
    assert set(reasons(listed)) == {"nvme.bdf"}


@pytest.mark.parametrize("text", [OLD, NEW])
def test_rows_alone(text: str) -> None:
    rows = "\n".join(line for line in text.splitlines() if line.startswith("/dev"))
    assert parse_nvme_list(rows).drives == THREE


MANGLINGS: dict[str, Callable[[str], str]] = {
    "crlf": lambda t: t.replace("\n", "\r\n"),
    "bom": lambda t: "\ufeff" + t,
    "stripped": lambda t: "\n".join(line.rstrip() for line in t.splitlines()),
    "fence": lambda t: f"# drives\n```\n$ sudo nvme list\n{t}```\n",
    "quoted": lambda t: re.sub("^", "> ", t, flags=re.MULTILINE),
    "indented": lambda t: re.sub("^", "        ", t, flags=re.MULTILINE),
    "logged": lambda t: re.sub("^", "2025-06-03 16:33:56.542[6724][DEBUG] x.cmd[6872].stdout ", t, flags=re.MULTILINE),
    "ray": lambda t: re.sub("^", "(pid=123, ip=10.0.0.1) ", t, flags=re.MULTILINE),
    "coloured": lambda t: t.replace("Node", "\x1b[1mNode\x1b[0m"),
    "commented": lambda t: re.sub("^", "        # ", t, flags=re.MULTILINE),
    "prose after": lambda t: t + "and /dev/nvme7n1 is not listed at all.\nWhy?\n",
    "errors before": lambda t: "Failed to open /dev/nvme9: Permission denied\n" + t,
}


@pytest.mark.parametrize("text", [OLD, NEW])
@pytest.mark.parametrize("mangling", MANGLINGS)
def test_pasting_does_no_harm(mangling: str, text: str) -> None:
    assert parse_nvme_list(MANGLINGS[mangling](text)).drives == THREE


@pytest.mark.parametrize("text", [OLD, NEW])
def test_lost_blanks_leave_a_model_only_behind_a_serial_number(text: str) -> None:
    listed = parse_nvme_list(re.sub("[ \t]+", " ", text))
    assert [d.model for d in listed.drives] == ["ACME SSD 9000 PRO 3.84TB", None, "BIGDISK-7-T"]
    assert [d.firmware for d in listed.drives] == ["FW000001", "1.0", "5.3.0-rc"]
    assert "serial number" in reasons(listed)["nvme[nvme1].model"]


@pytest.mark.parametrize(
    ("serial", "model"),
    [
        ("XXXXXXXX", "ACME SSD"),
        ("****", "ACME SSD"),
        ("<redacted>", "ACME SSD"),
        ("{device 3 serial number}", "ACME SSD"),
        ("", None),
        ("SN:", None),
        ("ACME", None),
    ],
)
def test_masked_serial_numbers_that_moved_the_row(serial: str, model: str | None) -> None:
    row = f"/dev/nvme0n1     {serial}    ACME SSD                                 1           3.84  TB /   3.84  TB    512   B +  0 B   FW1\n"
    header = OLD[: OLD.index("/dev")]
    assert models(header + row) == {"nvme0": model}
    assert parse_nvme_list(header + row).drives[0].firmware == "FW1"


def test_a_serial_number_that_moved_a_row_into_other_columns() -> None:
    text = OLD.replace("SER0000000000001     ACME", "X ACME")
    assert models(text)["nvme0"] in ("ACME SSD 9000 PRO 3.84TB", None)


def wrapped(text: str, width: int, strip: bool) -> str:
    pieces = (line[i : i + width] for line in text.splitlines() for i in range(0, len(line), width))
    return "\n".join(piece.rstrip() if strip else piece for piece in pieces)


@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("width", [80, 100, 120, 132])
@pytest.mark.parametrize("text", [OLD, NEW])
def test_wrapped_by_a_terminal(text: str, width: int, strip: bool) -> None:
    assert parse_nvme_list(wrapped(text, width, strip)).drives == THREE


@pytest.mark.parametrize("strip", [True, False])
@pytest.mark.parametrize("width", range(30, 170))
@pytest.mark.parametrize("text", [OLD, NEW])
def test_a_wrap_anywhere_makes_nothing_up(text: str, width: int, strip: bool) -> None:
    truth = {drive.controller: drive for drive in THREE}
    for drive in parse_nvme_list(wrapped(text, width, strip)).drives:
        expected = truth[drive.controller]
        assert drive.namespaces == expected.namespaces
        assert drive.model in (None, expected.model)
        assert drive.firmware in (None, expected.firmware)


def test_a_row_cut_at_the_right_keeps_its_name() -> None:
    listed = parse_nvme_list("\n".join(line[:60] for line in OLD.splitlines()))
    assert [(d.controller, d.model, d.firmware) for d in listed.drives] == [
        ("nvme0", None, None),
        ("nvme1", None, None),
        ("nvme10", None, None),
    ]
    assert "nvme[nvme0].model" in reasons(listed)


def test_tab_separated_with_a_version_column() -> None:
    text = (
        "Node            \tSN                  \tModel                   \tVersion \tNamepace  \tUsage \tFormat \tFW Rev\n"
        "----------------\t--------------------\t------------------------\t--------\t----------\t------\t-------\t------\n"
        "/dev/nvme0n1    \tSER000              \tAcme Express 800GB      \t1.0     \t1         "
        "\t800.17  GB / 800.17  GB   \t512   B +  0 B  \tIPM0MD3Q\n"
    )
    assert models(text) == {"nvme0": "Acme Express 800GB"}
    assert models(re.sub("[ \t]+", " ", text)) == {"nvme0": "Acme Express 800GB"}


def test_namespaces_of_one_drive() -> None:
    second = OLD.splitlines()[2].replace("nvme0n1", "nvme0n2")
    listed = parse_nvme_list(OLD + second)
    assert listed.drives[0].namespaces == ("nvme0n1", "nvme0n2")
    assert len(listed.drives) == 3


def test_a_name_that_two_drives_share_is_no_controller() -> None:
    second = OLD.splitlines()[3].replace("nvme1n1", "nvme0n2")
    listed = parse_nvme_list(OLD + second)
    assert [(d.controller, d.namespaces) for d in listed.drives[:2]] == [(None, ("nvme0n1",)), (None, ("nvme0n2",))]
    assert "nvme[nvme0]" in reasons(listed)


def test_a_path_names_its_controller() -> None:
    row = OLD.splitlines()[2].replace("/dev/nvme0n1    ", "/dev/nvme2c5n1  ")
    (drive,) = parse_nvme_list(row).drives
    assert (drive.controller, drive.namespaces) == ("nvme5", ("nvme2n1",))


VERBOSE = """\
NVM Express Subsystems

Subsystem        Subsystem-NQN                                                                                    Controllers
---------------- ------------------------------------------------------------------------------------------------ ----------------
nvme-subsys1     nqn.2019-08.org.example:subsys0                                                                  nvme0, nvme1
nvme-subsys3     nqn.2019-08.org.example:other                                                                    nvme3

NVM Express Controllers

Device   SN                   MN                                       FR       TxPort Address        Subsystem    Namespaces
-------- -------------------- ---------------------------------------- -------- ------ -------------- ------------ ----------------
nvme0    SER0000000000001     Two Port SSD                             1.0      pcie   0000:3B:00.0   nvme-subsys1 nvme1n1
nvme1    SER0000000000001     Two Port SSD                             1.0      pcie   0000:5e:00.0   nvme-subsys1 nvme1n1, nvme1c1n2
nvme3    SN: 00002            Linux                                    5.6.3    tcp    traddr=10.0.0.1,trsvcid=4420,src_addr=10.0.0.2 nvme-subsys3 nvme3n1

NVM Express Namespaces

Device       NSID     Usage                      Format           Controllers
------------ -------- -------------------------- ---------------- ----------------
nvme1n1      1        134.22  MB / 134.22  MB    512   B +  0 B   nvme0, nvme1
nvme1n2      2        268.44  MB / 268.44  MB    512   B +  0 B   nvme1
nvme3n1      1        268.44  MB / 268.44  MB    512   B +  0 B   nvme3
"""
VERBOSE_DRIVES = (
    NvmeListed(
        controller="nvme0",
        namespaces=("nvme1n1",),
        model="Two Port SSD",
        firmware="1.0",
        bdf="0000:3b:00.0",
        transport="pcie",
    ),
    NvmeListed(
        controller="nvme1",
        namespaces=("nvme1n1", "nvme1n2"),
        model="Two Port SSD",
        firmware="1.0",
        bdf="0000:5e:00.0",
        transport="pcie",
    ),
    NvmeListed(controller="nvme3", namespaces=("nvme3n1",), model=None, firmware="5.6.3", transport="tcp"),
)


def test_verbose_tables() -> None:
    listed = parse_nvme_list(VERBOSE)
    assert listed.drives == VERBOSE_DRIVES
    assert set(reasons(listed)) == {"nvme[nvme3].model"}


def test_verbose_tables_behind_a_prefix() -> None:
    assert parse_nvme_list(re.sub("^", "> > ", VERBOSE, flags=re.MULTILINE)).drives == VERBOSE_DRIVES
    assert parse_nvme_list(re.sub("^", "[rank0]: ", VERBOSE, flags=re.MULTILINE)).drives == VERBOSE_DRIVES


def test_verbose_tables_whose_rows_do_not_keep_to_the_rule() -> None:
    text = """\
Device           Cntlid SN                   MN                                       FR       TxPort Address        Slot   Subsystem    Namespaces
---------------- ------ -------------------- ---------------------------------------- -------- ------ -------------- ------ ------------ ----------------
nvme0    7      SN: 00002            ACME SSD 9000                            FW1.2    pcie   0000:02:00.0          nvme-subsys0 nvme0n1
nvme1            1      SER0000000000003     ACME SSD 9001                            FW1.3    pcie   0000:0e:00.0   9      nvme-subsys1 nvme1n1

Device            Generic           NSID       Usage                                             Format           Controllers
----------------- ----------------- ---------- ------------------------------------------------- ---------------- ----------------
/dev/nvme0n1      /dev/ng0n1        0x1          1.00 TB /   1.00 TB ( 931.51 GiB /  931.51 GiB) 512   B +  0 B   nvme0
/dev/nvme1n1      /dev/ng1n1        0x1          1.00 TB /   1.00 TB ( 931.51 GiB /  931.51 GiB) 512   B +  0 B   nvme1
"""
    listed = parse_nvme_list(text)
    assert [(d.controller, d.model, d.bdf, d.namespaces) for d in listed.drives] == [
        ("nvme0", "ACME SSD 9000", "0000:02:00.0", ("nvme0n1",)),
        ("nvme1", "ACME SSD 9001", "0000:0e:00.0", ("nvme1n1",)),
    ]
    lost = parse_nvme_list(re.sub("[ \t]+", " ", text))
    assert [(d.controller, d.model, d.bdf) for d in lost.drives] == [
        ("nvme0", None, "0000:02:00.0"),
        ("nvme1", "ACME SSD 9001", "0000:0e:00.0"),
    ]


def test_both_lists_in_one_text_agree_on_the_controllers() -> None:
    plain = OLD.splitlines()[2].replace("nvme0n1", "nvme1n1")
    assert parse_nvme_list(OLD[: OLD.index("/dev")] + plain + "\n\n" + VERBOSE).drives == VERBOSE_DRIVES


def flat(**fields: Any) -> dict[str, Any]:
    drive = {"NameSpace": 1, "DevicePath": "/dev/nvme0n1", "Firmware": "FW000001", "ModelNumber": "ACME SSD 9000"}
    return {**drive, "SerialNumber": "SER0000000000001", "PhysicalSize": 3840755982336, **fields}


def as_list(*devices: Any) -> str:
    return json.dumps({"Devices": devices}, indent=2)


ACME = NvmeListed(
    controller="nvme0",
    namespaces=("nvme0n1",),
    model="ACME SSD 9000",
    firmware="FW000001",
    size_bytes=3840755982336,
)


def test_flat_json() -> None:
    assert parse_nvme_list(as_list(flat(ProductName="NULL"))).drives == (ACME,)


@pytest.mark.parametrize("size", ["NULL", None, -2147483648, 0, 1 << 70, 1.5, True, [1]])
def test_a_size_that_is_none(size: Any) -> None:
    assert parse_nvme_list(as_list(flat(PhysicalSize=size))).drives[0].size_bytes is None


@pytest.mark.parametrize("model", ["NULL", "", "   ", None, 7, ["x"], "x" * 500])
def test_a_model_that_is_none(model: Any) -> None:
    assert parse_nvme_list(as_list(flat(ModelNumber=model))).drives[0].model is None


def test_sizes_of_namespaces_add_up_only_when_all_are_known() -> None:
    both = parse_nvme_list(as_list(flat(PhysicalSize=5), flat(DevicePath="/dev/nvme0n2", PhysicalSize=6)))
    one = parse_nvme_list(as_list(flat(PhysicalSize=5), flat(DevicePath="/dev/nvme0n2", PhysicalSize="NULL")))
    assert [d.size_bytes for d in (*both.drives, *one.drives)] == [11, None]


def test_no_drives_is_an_answer() -> None:
    assert parse_nvme_list('{\n  "Devices":[]\n}\n') == NvmeList()
    assert parse_nvme_list("No NVMe devices detected.\n") == NvmeList()


def test_an_empty_table_may_be_a_cut_one() -> None:
    listed = parse_nvme_list(NEW[: NEW.index("/dev")])
    assert listed.drives == ()
    assert "nvme" in reasons(listed)


ERRORS = "Failed to open /sys/class/nvme/nvme1/device/vendor with errno No such file or directory {sic}\n"


@pytest.mark.parametrize(
    "mangle",
    [
        lambda t: ERRORS + t,
        lambda t: t + "\nroot@host:~# ls {a,b}\n",
        lambda t: "\ufeff" + t.replace("\n", "\r\n"),
        lambda t: re.sub("^", "> ", t, flags=re.MULTILINE),
        lambda t: re.sub("^", "2025-06-03 16:33:56.542[6724][DEBUG] x.cmd[1].stdout ", t, flags=re.MULTILINE),
        lambda t: re.sub("^", "[rank0]: ", t, flags=re.MULTILINE),
        lambda t: re.sub("^ +", "\t", t, flags=re.MULTILINE),
        lambda t: "```json\n" + t + "\n```\n",
    ],
)
def test_json_amid_other_text(mangle: Callable[[str], str]) -> None:
    assert parse_nvme_list(mangle(as_list(flat()))).drives == (ACME,)


def test_json_cut_off_keeps_the_drives_before() -> None:
    text = as_list(flat(), flat(DevicePath="/dev/nvme1n1"))
    listed = parse_nvme_list(text[:-80])
    assert listed.drives == (ACME,)
    assert reasons(listed)["nvme"] == "the JSON is cut off"


def controller(name: str, **fields: Any) -> dict[str, Any]:
    shown = {"Controller": name, "Cntlid": "1", "SerialNumber": "SER0000000000001", "ModelNumber": "ACME SSD 9000"}
    return {**shown, "Firmware": "FW000001", "Transport": "pcie", "Address": "0000:5E:00.0", "Slot": "3", **fields}


def namespace(name: str, size: int = 3840755982336, **fields: Any) -> dict[str, Any]:
    return {"NameSpace": name, "Generic": "ng0n1", "NSID": 1, "PhysicalSize": size, **fields}


def host(*subsystems: dict[str, Any]) -> str:
    named = [{"Subsystem": "nvme-subsys0", "SubsystemNQN": "nqn.2014-08.org:uuid:1", **x} for x in subsystems]
    return as_list({"HostNQN": "nqn.2014-08.org:uuid:2", "HostID": "3", "Subsystems": named})


NESTED = NvmeListed(
    controller="nvme0",
    namespaces=("nvme0n1",),
    model="ACME SSD 9000",
    firmware="FW000001",
    bdf="0000:5e:00.0",
    transport="pcie",
    size_bytes=3840755982336,
)


def test_nested_json() -> None:
    own = {"Controllers": [controller("nvme0", Namespaces=[namespace("nvme0n1")], Paths=[])], "Namespaces": []}
    listed = parse_nvme_list(host(own))
    assert listed == NvmeList(drives=(NESTED,))
    assert parse_nvme_list(as_list({"Subsystem": "nvme-subsys0", **own})) == listed


def test_nested_json_with_native_multipath() -> None:
    paths = {
        "Controllers": [controller("nvme0", Namespaces=[], Paths=[{"Path": "nvme0c0n1", "ANAState": "optimized"}])],
        "Namespaces": [namespace("nvme0n1")],
    }
    assert parse_nvme_list(host(paths)) == NvmeList(drives=(NESTED,))
    older = {"Controllers": [controller("nvme0", Namespaces=[])], "Namespaces": [namespace("nvme0n1")]}
    assert parse_nvme_list(host(older)) == NvmeList(drives=(NESTED,))
    second = {"Namespaces": [namespace("nvme0n1", Paths=[{"Path": "nvme0c0n1", **controller("nvme0")}])]}
    newer = parse_nvme_list(host(second)).drives
    assert [(d.controller, d.namespaces, d.bdf) for d in newer] == [("nvme0", ("nvme0n1",), "0000:5e:00.0")]


def test_two_controllers_of_one_drive() -> None:
    both = [controller(name, Namespaces=[], Paths=[{"Path": f"nvme1c{name[4:]}n1"}]) for name in ("nvme0", "nvme1")]
    listed = parse_nvme_list(host({"Controllers": both, "Namespaces": [namespace("nvme1n1", 7)]}))
    assert [(d.controller, d.namespaces, d.size_bytes) for d in listed.drives] == [
        ("nvme0", ("nvme1n1",), 7),
        ("nvme1", ("nvme1n1",), 7),
    ]


@pytest.mark.parametrize(
    ("transport", "address"),
    [("tcp", "traddr=10.0.0.1,trsvcid=4420"), ("fc", "nn-0x1:pn-0x2"), ("rdma", "0000:5e:00.0"), ("loop", "")],
)
def test_fabrics_have_no_bdf(transport: str, address: str) -> None:
    item = controller("nvme0", Transport=transport, Address=address, Namespaces=[namespace("nvme0n1")])
    (drive,) = parse_nvme_list(host({"Controllers": [item]})).drives
    assert (drive.transport, drive.bdf) == (transport, None)


def test_controllers_that_are_listed_twice_and_differ() -> None:
    items = [controller("nvme0", Namespaces=[]), controller("nvme0", ModelNumber="Other", Namespaces=[])]
    listed = parse_nvme_list(host({"Controllers": items}))
    assert [(d.controller, d.model) for d in listed.drives] == [("nvme0", None)]
    assert "nvme[nvme0].model" in reasons(listed)


@pytest.mark.parametrize("text", [OLD, NEW, VERBOSE, as_list(flat()), host({"Controllers": [controller("nvme0")]})])
def test_serial_numbers_and_names_of_subsystems_are_dropped(text: str) -> None:
    assert not any(secret in repr(parse_nvme_list(text)) for secret in SECRETS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n \n",
        "Device            r/s     rMB/s\nnvme1n1       6221.00    956.09\n",
        '{"jobs": [{"filename": "/dev/nvme0n1"}]}',
        '{"Devices": {}}',
        '[{"DevicePath": 1}]',
        "/dev/nvme0n1 is slow",
        "/dev/nvme0n1  1.8T  234G  1.5T  14% /data\n",
        "nvme0n1     259:0    0   1.8T  0 disk\n",
        '{"Devices":' + "[" * 100_000,
        '{"Devices":' + '{"Devices":' * 100_000,
        '{"Devices":[' + '{"Controllers":[' * 100_000,
        '{"DevicePath":"/dev/nvme0n1","PhysicalSize":' + "9" * 1_000_000,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_nvme_list(text, source="paste")
    assert error.value.source == "paste"


def test_a_huge_number_is_no_size() -> None:
    text = as_list(flat()).replace("3840755982336", "9" * 1_000_000)
    assert parse_nvme_list(text).drives[0].size_bytes is None


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["NULL", "nvme0", "nvme0n1", "nvme0c1n1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Devices",
                    "Subsystems",
                    "Controllers",
                    "Controller",
                    "Namespaces",
                    "NameSpace",
                    "Paths",
                    "Path",
                    "DevicePath",
                    "ModelNumber",
                    "Firmware",
                    "Transport",
                    "Address",
                    "PhysicalSize",
                    "SerialNumber",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(values)
@settings(max_examples=300)
def test_any_json_is_read_or_refused(value: Any) -> None:
    with suppress(ParseError):
        assert isinstance(parse_nvme_list(json.dumps({"Devices": value})), NvmeList)


pieces = st.sampled_from(
    [
        "/dev/nvme0n1",
        "/dev/ng0n1",
        "nvme0",
        "nvme0n1",
        "Node",
        "SN",
        "Model",
        "Device",
        "MN",
        "NSID",
        "TxPort",
        "pcie",
        "-----",
        "1",
        "0x1",
        "3.84",
        "TB",
        "/",
        "512",
        "B",
        "+",
        "0",
        "FW1",
        "nvme-subsys0",
        "{",
        "}",
        "[",
        '"Devices":',
        '"DevicePath":',
        '"/dev/nvme0n1"',
        ",",
        "\n",
        "\t",
        "\r",
        "  ",
        "\x1b[0m",
        ">",
        "0000:01:00.0",
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=80).map(" ".join), st.lists(pieces, max_size=80).map("".join)))
@settings(max_examples=400)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ParseError):
        assert isinstance(parse_nvme_list(text), NvmeList)


@given(
    st.sampled_from([OLD, NEW, VERBOSE, as_list(flat()), host({"Controllers": [controller("nvme0")]})]),
    st.integers(0, 2000),
    st.integers(0, 300),
    st.text(max_size=5),
)
def test_a_damaged_list_is_read_or_refused(text: str, start: int, length: int, put: str) -> None:
    with suppress(ParseError):
        assert isinstance(parse_nvme_list(text[:start] + put + text[start + length :]), NvmeList)


# Without "[": a "[0m" counts as a colour whose escape character was lost.
names = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="["), min_size=1, max_size=12)
spaced = st.lists(names, min_size=1, max_size=3).map(" ".join)


@given(st.lists(st.tuples(spaced.filter(lambda s: len(s) <= 20), spaced, names.map(lambda s: s[:8])), max_size=5))
def test_round_trip_of_a_table(drives: list[tuple[str, str, str]]) -> None:
    header = OLD[: OLD.index("/dev")]
    rows = (
        f"{f'/dev/nvme{i}n1':<16} {serial:<20} {model:<40} {1:<9} {'  3.84  TB /   3.84  TB':<26} "
        f"{'512   B +  0 B':<16} {firmware:<8}\n"
        for i, (serial, model, firmware) in enumerate(drives)
    )
    listed = parse_nvme_list(header + "".join(rows))
    nothing = ("NULL", "-", "NONE", "N/A", "(NULL)")
    assert [(d.model, d.firmware) for d in listed.drives] == [
        (None if model.upper() in nothing else model, None if firmware.upper() in nothing else firmware)
        for _, model, firmware in drives
    ]


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "unit",
    [
        "x",
        " ",
        "\n",
        "{",
        "[",
        '{"a":',
        "}{",
        "/dev/nvme0n1 ",
        "/dev/nvme0n1 a\n",
        "- ",
        "---\n",
        "Node SN\n",
        "nvme0 \n",
        "nvme ",
        "/ ",
        "+ ",
        '{"Devices":[',
        '{"DevicePath":"/dev/nvme0n1"}',
        "Device MN\nnvme1 \n",
        "\x1b",
    ],
)
def test_fifty_megabytes_of_noise(unit: str) -> None:
    text = unit * (50_000_000 // len(unit))
    begin = time.process_time()
    for prefix in ("nvme", OLD + "\n", '"Devices" {'):
        with suppress(ParseError):
            parse_nvme_list(prefix + text)
    assert time.process_time() - begin < 45
