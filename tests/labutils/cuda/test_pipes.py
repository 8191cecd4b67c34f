"""Which instructions are in loops, what they occupy, and how many bytes are in flight."""

from labutils.cuda.cubin import Instruction
from labutils.cuda.pipes import in_flight, schedule


def code(*lines: str) -> list[Instruction]:
    """Instructions; a line "name:" labels the next one."""
    found, label = [], ""
    for line in lines:
        if line.endswith(":"):
            label = line[:-1]
        else:
            found.append(Instruction(line, None, label))
            label = ""
    return found


LOOP = code(
    "S2R R0, SR_TID.X",
    "LDG.E.128 R4, desc[UR4][R2.64]",
    "LDG.E R8, desc[UR4][R2.64+0x10]",
    ".L_x_1:",
    "@!P0 LDG.E.64 R10, desc[UR4][R2.64]",
    "FADD R4, R4, R8",
    "MUFU.EX2 R4, R4",
    "STS.128 [R1], R4",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "@!P1 BRA `(.L_x_1)",
    "STG.E desc[UR4][R2.64], R10",
    "EXIT",
    ".L_x_2:",
    "BRA `(.L_x_2)",
    "NOP",
    "$__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath:",
    "MUFU.RCP R1, R1",
)


def test_instructions_between_a_label_and_the_branch_back_are_a_loop():
    found = schedule(LOOP)
    assert (found.once.load, found.loop.load) == (20, 8)
    assert (found.once.barriers, found.loop.barriers) == (0, 1)
    assert found.loop.shared == 4
    assert found.once.busy == 6 and not found.copies


def test_the_busiest_pipe_counts_and_subroutines_do_not():
    assert schedule(LOOP).loop.busy == 8  # one special function takes longer than six instructions are issued
    assert schedule(code("IADD3 R1, R2, R3, RZ", "FADD R1, R1, R2")).once.busy == 2
    assert schedule(code("IADD3 R1, R2, R3, RZ", "IADD3 R1, R1, R2, RZ", "EXIT")).once.busy == 4


def test_loads_are_in_flight_until_a_register_is_read():
    assert in_flight(LOOP) == 28
    two = code("LDG.E R1, desc[UR4][R8.64]", "FADD R2, R1, R1", "LDG.E R3, desc[UR4][R8.64]", "FADD R2, R3, R3")
    assert in_flight(two) == 4
    assert in_flight(code("LDG.E.64 R2, desc[UR4][R8.64]", "LDG.E R4, desc[UR4][R2.64]")) == 8  # the second needs both


def test_copies_to_shared_memory_are_seen():
    assert schedule(code("LDGSTS.E.128 [R1], desc[UR4][R2.64]")).copies
    assert schedule(code("UTMALDG.2D [UR8], [UR4]")).copies


def test_integer_multiplications_share_the_pipe_of_fp32():
    assert schedule(code(*["IMAD R1, R2, R3, R4"] * 2, *["IADD3 R1, R2, R3, RZ"] * 2)).once.busy == 4
    assert schedule(code("IMAD R1, R2, R3, R4", *["FADD R1, R2, R3"] * 3)).once.busy == 4


def test_calls_of_rare_subroutines_are_left_out():
    rare = ("@!P0 BRA `(.L_x_1)", "CALL.REL.NOINC `($__internal_0_$sqrt)", "MOV R1, R2", ".L_x_1:", "EXIT")
    assert schedule(code(*rare)).once.issued == 2


def test_a_warp_takes_one_of_two_sides():
    sides = ("@P0 BRA `(.L_x_1)", "FADD R1, R1, R1", "BRA `(.L_x_2)", ".L_x_1:", "FADD R2, R2, R2", ".L_x_2:", "EXIT")
    assert schedule(code(*sides)).once.either == 3


def test_what_comes_back_from_behind_the_end_is_no_loop():
    wait = ("@P0 BRA `(.L_x_2)", ".L_x_1:", "FADD R1, R1, R1", "EXIT", ".L_x_2:", "NANOSLEEP R1", "BRA `(.L_x_1)")
    assert not schedule(code(*wait)).loop.issued


def test_loops_that_wait_and_atomic_operations_in_loops_are_seen():
    spin = (".L_x_1:", "LDG.E.STRONG.GPU R1, desc[UR4][R2.64]", "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA `(.L_x_1)")
    assert schedule(code(*spin)).spins and not schedule(code(*spin)).atomics
    assert schedule(code(".L_x_1:", "ATOMS.ADD R1, [R2], R3", "@P0 BRA `(.L_x_1)", "EXIT")).atomics
