# tries: calls the library's occupancy calculator
# stopped by: functions of the library that compute an exercise's answer are not in the sandbox
# exercise: 03_occupancy/calculator
# where: both
# expect: refused

import labutils as lab


def occupancy(threads, registers, shared_bytes, capability):
    from labutils.gpu.occupancy import occupancy as whole

    return whole(lab.device.limits_for(divmod(capability, 10)), threads, registers, shared_bytes).fraction
