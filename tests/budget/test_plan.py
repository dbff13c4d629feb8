"""The plan as a whole: what a GPU is split into, whether the days fit, and what to do when they do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.budget.gpus import GIB, GPUS, gpu_named, memory_of_host, next_larger
from hostdoctor.budget.options import parse_option
from hostdoctor.budget.plan import Ask, Plan, make_plan
from hostdoctor.budget.request_log import Tokens
from hostdoctor.budget.traffic import Load
from hostdoctor.budget.weights import Model
from hostdoctor.errors import LayoutError, UsageError
from hostdoctor.facts import Gpu, Host
from tests.budget.models import DEEPSEEK_V3, GPT_OSS_120B, LLAMA_8B, REFUSED, Fields, config

LOAD = Load(
    rps=12,
    peak_rps=20,
    time_in_system_s=3,
    input_tokens=Tokens(mean=2000, p95=9000, p99=30_000),
    output_tokens=Tokens(mean=300, p95=800, p99=1500),
    sessions=100,
)


def model(fields: Fields, weights_gib: float | None = 15) -> Model:
    size = None if weights_gib is None else round(weights_gib * GIB)
    return Model(config=config(fields), weights_bytes=size, weights_source="a test")


def planned(fields: Fields | None = LLAMA_8B, weights_gib: float | None = 15, **more: Any) -> Plan:
    stated: dict[str, Any] = {"gpu": "h100-80", "gpu_bytes": 80 * GIB, "batched_tokens": 8192} | more
    return make_plan(Ask(model=None if fields is None else model(fields, weights_gib), **stated))


def held(plan: Plan) -> dict[int, int]:
    return {found.context_tokens: found.sessions for found in plan.sessions}


def test_weights_reserve_and_kv_are_the_whole_gpu() -> None:
    plan = planned()
    assert (plan.vram.weights_bytes, plan.vram.reserve_bytes, plan.vram.kv_bytes) == (15 * GIB, 16 * GIB, 49 * GIB)
    assert held(plan) == {2048: 196, 8192: 49, 32_768: 12, 131_072: 3}
    assert plan.fits is True


def test_ranks_share_the_weights() -> None:
    plan = planned(weights_gib=140, tp=4)
    assert (plan.vram.weights_bytes, plan.vram.kv_bytes, plan.weights_bytes) == (35 * GIB, 29 * GIB, 140 * GIB)
    assert plan.kv.bytes_per_token_per_rank == 32_768


def test_a_measured_use_replaces_weights_and_reserve_and_stated_bytes_the_config() -> None:
    plan = planned(None, used_bytes=48 * GIB, kv_bytes_per_token=2 * GIB // 8192)
    assert held(plan) == {2048: 64, 8192: 16, 32_768: 4, 131_072: 1}
    assert (plan.vram.weights_bytes, plan.vram.reserve_bytes, plan.vram.used_bytes) == (None, None, 48 * GIB)


def test_stated_bytes_plan_even_a_layout_that_is_not_known() -> None:
    fields, _ = REFUSED["DeepSeek-V4"]
    with pytest.raises(LayoutError):
        planned(fields)
    plan = planned(fields, kv_bytes_per_token=1000, tp=2)
    assert (plan.kv.bytes_per_token_per_rank, plan.kv.bytes_per_token_total, plan.max_tokens) == (1000, 2000, 131_072)


def test_what_is_not_known_gives_no_sessions() -> None:
    for plan in (planned(weights_gib=None), planned(gpu_bytes=None), planned(None)):
        assert (plan.sessions, plan.fits, plan.vram.kv_bytes) == ((), None, None)
    assert planned(gpu_bytes=None).kv.bytes_per_token_per_rank == 131_072


def test_weights_that_are_too_large_do_not_fit_and_are_short_by_so_much() -> None:
    plan = planned(weights_gib=70)
    assert (plan.fits, plan.vram.kv_bytes, plan.vram.short_bytes) == (False, 0, 6 * GIB)
    assert set(held(plan).values()) == {0}


def test_contexts_end_at_the_model_s_limit_or_the_stated_one() -> None:
    assert sorted(held(planned(LLAMA_8B | {"max_position_embeddings": 40_960}))) == [2048, 8192, 32_768, 40_960]
    assert sorted(held(planned(max_tokens=10_000))) == [2048, 8192, 10_000]
    with pytest.raises(UsageError, match="own limit"):
        planned(max_tokens=200_000)


def test_a_shorter_limit_ends_windows_too() -> None:
    plan = planned(GPT_OSS_120B, max_tokens=4096)
    assert plan.kv.state_bytes_per_sequence == (4096 // 16 + 1) * 16 * 36_864


def test_every_precision_that_the_layout_has_stands_beside() -> None:
    by_name = {found.kv_dtype: found for found in planned().precisions}
    assert by_name["fp8"].bytes_per_token_per_rank == 65_536
    assert [found.sessions for found in by_name["nvfp4"].sessions] == [696, 174, 43, 10]
    assert by_name["fp8_ds_mla"].bytes_per_token_per_rank is None
    assert "MLA" in (by_name["fp8_ds_mla"].unsupported or "")


def test_a_checkpoint_with_its_own_kv_precision_needs_the_choice() -> None:
    fields = LLAMA_8B | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
    with pytest.raises(UsageError, match="8-bit float"):
        planned(fields)
    assert planned(fields, kv_dtype="fp8").kv.bytes_per_token_per_rank == 65_536


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", None])
def test_a_cache_has_sixteen_bits_by_default(dtype: str | None) -> None:
    plan = planned(LLAMA_8B | {"torch_dtype": dtype})
    assert plan.kv.bytes_per_token_per_rank == 131_072
    assert any("no dtype" in note for note in plan.notes) is (dtype is None)


def test_a_draft_of_another_model_is_said_to_be_left_out() -> None:
    assert any("draft" in note for note in planned(speculative_tokens=2).notes)
    assert not any("draft" in note for note in planned(DEEPSEEK_V3, speculative_tokens=2).notes)


def test_an_element_type_that_is_new_is_refused() -> None:
    with pytest.raises(LayoutError, match="float5"):
        planned(LLAMA_8B | {"torch_dtype": "float5"})


def test_three_days_on_two_engines() -> None:
    plan = planned(load=LOAD, replicas=2)
    normal, long, bad = plan.profiles
    assert (normal.sessions_per_replica, normal.replicas, normal.fits, normal.fits_one_down) == (174, 1, True, True)
    assert (long.sessions_per_replica, long.replicas, long.replicas_n_plus_1) == (40, 2, 3)
    assert (long.fits, long.fits_one_down) == (True, False)
    assert (bad.sessions_per_replica, bad.replicas, bad.fits) == (12, 13, False)
    assert bad.short_bytes == (150 - 2 * 12) * (bad.session_bytes or 0)
    assert (plan.fits, plan.missing) == (True, ())


def test_planned_requests_and_batch_room_are_the_whole_kv() -> None:
    vram = planned(load=LOAD, replicas=2).vram
    assert vram.planned_kv_bytes == 38 * -(-9800 // 16) * 16 * 131_072
    assert (vram.planned_kv_bytes or 0) + (vram.batch_room_bytes or 0) == vram.kv_bytes


def test_stated_engines_that_hold_no_long_dialogues_do_not_fit() -> None:
    assert planned(load=LOAD, replicas=1).fits is False
    assert planned(load=LOAD).fits is True  # nobody stated how many run: the plan says how many it takes


def test_a_dialogue_beyond_the_model_s_context_does_not_fit() -> None:
    plan = planned(load=LOAD, max_tokens=8192, replicas=9)
    assert (plan.profiles[1].sessions_per_replica, plan.profiles[1].replicas, plan.profiles[1].fits) == (0, None, False)
    assert (plan.profiles[1].short_bytes, plan.remedies) == (None, ())


def test_remedies_come_in_their_order_with_what_they_give() -> None:
    plan = planned(load=LOAD, replicas=2)
    names = ["trim-history", "prefix-caching", "kv-precision", "cap-long-sessions", "kv-to-ram"]
    assert [remedy.name for remedy in plan.remedies] == names
    trim, _, lower, cap, ram = plan.remedies
    assert trim.tokens is not None
    assert planned(load=Load(sessions=1), max_tokens=trim.tokens).sessions[-1].sessions * 2 >= 150
    assert planned(load=Load(sessions=1), max_tokens=trim.tokens + 16).sessions[-1].sessions * 2 < 150
    assert (lower.sessions, cap.sessions, ram.size_bytes) == (50, 24, plan.profiles[2].short_bytes)


def test_a_plan_that_fits_needs_no_remedy() -> None:
    assert planned(load=LOAD, replicas=20).remedies == ()


def test_kv_of_a_latent_moves_to_ram_once() -> None:
    plan = planned(DEEPSEEK_V3, weights_gib=640, tp=16, load=LOAD, replicas=1, gpu_bytes=80 * GIB)
    assert plan.remedies[-1].size_bytes == next(fit for fit in plan.profiles if fit.fits is False).short_bytes


def test_options_stand_side_by_side_with_a_spare() -> None:
    rows = planned(load=LOAD).options
    assert [(row.gpu, row.tp, row.replicas, row.gpus_total) for row in rows] == [
        ("h100-80", 1, 2, 3), ("h100-80", 2, 1, 4), ("h200-141", 1, 1, 2), ("h100-80", 1, 2, 3),
    ]  # fmt: skip
    assert "API" in rows[-1].name


def test_named_options_stand_beside_and_impossible_ones_say_why() -> None:
    rows = planned(load=LOAD, options=(("l40s-48", 2), ("a100-80", 3), ("t4-16", 1))).options
    assert [row.gpu for row in rows] == ["h100-80", "l40s-48", "a100-80", "t4-16", "h100-80"]
    assert rows[1].gpu_bytes == 45 * GIB
    assert rows[1].kv_bytes == 45 * GIB - 15 * GIB // 2 - 9 * GIB
    assert rows[2].note.startswith("not possible: --tp 3")
    assert (rows[3].kv_bytes, rows[3].sessions, rows[3].replicas) == (0, 0, None)


def test_options_of_a_measured_engine_are_not_guessed() -> None:
    rows = planned(load=LOAD, used_bytes=31 * GIB).options
    assert [row.sessions for row in rows] == [40, None, None, 40]
    assert rows[1].note.startswith("not known")


def test_what_sessions_alive_would_hold() -> None:
    assert planned(load=LOAD).alive_kv_bytes == 100 * -(-9800 // 16) * 16 * 131_072


def test_an_unfinished_plan_names_the_figures_that_are_missing() -> None:
    missing = planned(None, gpu_bytes=None, growth_percent=10).missing
    wanted = ("--config", "--gpu", "--weights-gib", "--input-tokens", "--output-tokens", "--rps", "--peak-rps",
              "--time-in-system", "--sessions", "--growth-percent", "--replicas")  # fmt: skip
    assert len(missing) == len(wanted)
    assert all(option in text for option, text in zip(wanted, missing, strict=True))


def test_a_reserve_beyond_the_usual_is_taken_and_said() -> None:
    plan = planned(reserve_percent=5)
    assert plan.vram.kv_bytes == 61 * GIB
    assert any("outside the usual 15 to 25 %" in note for note in plan.notes)


@given(st.integers(0, 200), st.floats(0, 90), st.integers(1, 300), st.sampled_from((1, 2, 4, 8)))
def test_shares_add_up_to_the_byte_and_more_reserve_never_holds_more(
    weights_gib: int, reserve: float, gpu_gib: int, tp: int
) -> None:
    plan = planned(weights_gib=weights_gib, gpu_bytes=gpu_gib * GIB, reserve_percent=reserve, tp=tp)
    vram = plan.vram
    parts = (vram.weights_bytes or 0) + (vram.reserve_bytes or 0) + (vram.kv_bytes or 0) - (vram.short_bytes or 0)
    assert parts == vram.gpu_bytes
    more = planned(weights_gib=weights_gib, gpu_bytes=gpu_gib * GIB, reserve_percent=min(90, reserve + 5), tp=tp)
    assert all(a.sessions >= b.sessions for a, b in zip(plan.sessions, more.sessions, strict=True))
    assert [s.sessions for s in plan.sessions] == sorted((s.sessions for s in plan.sessions), reverse=True)


@given(st.floats(0.1, 1000), st.floats(0.1, 100), st.integers(1, 100_000), st.integers(1, 50))
def test_what_the_days_need_is_enough_and_one_engine_fewer_is_not(
    rps: float, seconds: float, tokens: int, replicas: int
) -> None:
    sizes = Tokens(mean=tokens, p95=tokens, p99=tokens)
    load = Load(rps=rps, time_in_system_s=seconds, input_tokens=sizes, output_tokens=Tokens(mean=1, p95=1, p99=1))
    for fit in planned(load=load, replicas=replicas).profiles:
        assert fit.replicas is not None
        assert fit.fits is (replicas >= fit.replicas)
        assert fit.fits_one_down is (replicas - 1 >= fit.replicas)
        assert bool(fit.short_bytes) is not fit.fits


def test_gpus_by_name() -> None:
    assert gpu_named("H100-80").memory_gib == 80
    assert (gpu_named("l4-24").memory_gib, gpu_named("t4-16").memory_gib) == (22.5, 15)
    assert next_larger(80 * GIB, 1.5) == GPUS["h200-141"]
    assert next_larger(256 * GIB, 1.5) is None
    assert [gpu_named(name).name for name in ("h200", "L40S", "l4")] == ["h200-141", "l40s-48", "l4-24"]
    with pytest.raises(UsageError, match=r"h100 comes in several sizes: h100-80, h100-94$"):
        gpu_named("h100")
    with pytest.raises(UsageError, match=r"not listed: 'h10' .*h100-80"):
        gpu_named("h10")


def test_gpus_of_a_host_count_with_the_smallest_that_is_needed() -> None:
    host = Host(gpus=(Gpu(memory_bytes=80), Gpu(memory_bytes=40), Gpu()))
    assert [memory_of_host(host, tp)[0] for tp in (1, 2, 3)] == [80, 40, None]


def test_options_by_name() -> None:
    assert [parse_option(text) for text in ("h100-80", "H200:2")] == [("h100-80", 1), ("h200-141", 2)]


@pytest.mark.parametrize("text", ["", "h100", "h100-80:0", "h100-80:x", "h100-80:99999", "h100-80:2:3"])
def test_options_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--option"):
        parse_option(text)
