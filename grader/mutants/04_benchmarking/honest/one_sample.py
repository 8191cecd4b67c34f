# expect: wrong-formula
# Times a single call, the first one.


def honest(machine, call):
    machine.flush()
    machine.synchronize()
    begin = machine.now()
    call()
    machine.synchronize()
    return machine.now() - begin
