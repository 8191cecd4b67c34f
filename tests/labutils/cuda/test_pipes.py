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
