# %% [markdown]
# # When are two results equal?
#
# **You will** compute by how much a correct result may differ from the exact result, and write the comparison that a
# test needs.
#
# **You will learn to**
# - compute how large the rounding error of a sum can be, from the number of its terms and the format of its
#   [accumulator](../glossary.md#accumulator) (the variable that holds the sum);
# - scale a tolerance with the absolute values of the terms, not of the result;
# - compare results that contain NaN or infinity.
#
# **You need** `00_start`. About 30 minutes. Works without a GPU.
#
# ## 1 The error of a sum
#
# Two correct [kernels](../glossary.md#kernel) rarely return the same bits. They add the same terms in different orders,
# and each addition rounds. So a test allows differences up to a tolerance. A tolerance that is too small rejects
# correct kernels; a tolerance that is too large accepts wrong kernels.
#
# Rounding replaces a number x by the nearest number that a [number format](../glossary.md#number-format) can represent.
# This changes x by at most u · |x|, where u is the [unit roundoff](../glossary.md#unit-roundoff) of the format: 2^-24
# for [fp32](../glossary.md#fp32), 2^-11 for [fp16](../glossary.md#fp16) and 2^-8 for [bf16](../glossary.md#bf16).
#
# A kernel that adds `terms` terms rounds after every addition. Each rounding error is at most u times the absolute
# value of the sum so far. This absolute value is at most `magnitude`, the sum of the absolute values of all terms. So
# the error of the result is at most terms · u · magnitude, and reaches this bound only if all rounding errors have the
# same sign. Errors with random signs partly cancel: their total grows like √terms, and almost never exceeds 8 · √terms
# · u · magnitude. (8 is a safety factor.) The checks in this course take the smaller of the two bounds, plus the error
# of storing the result:
#
# min(terms, 8 · √terms) · u(`accumulate`) · magnitude + u(`stored`) · |expected|
#
# `expected` is the exact result. `accumulate` and `stored` are the formats of the accumulator and of the stored result:
# `"fp32"`, `"fp16"` or `"bf16"`; u(`accumulate`) is the u of that format. Write `tolerance`, which computes this
# formula.
#
# **Predict.** A kernel adds 1024 products in fp32 and stores the sum in fp16. Which part of the tolerance is larger,
# the one before or the one after the +, if all terms have the same sign (magnitude = |expected|)? Which part is larger
# if positive and negative terms almost cancel, for example if magnitude = 1000 · |expected|?
#
# <details><summary>Hint 1</summary>Put the three values of u into a dictionary <code>U</code>.</details>
# <details><summary>Hint 2</summary>For which numbers of terms is 8 · √terms smaller than terms?</details>
# <details><summary>Hint 3</summary><code>min(terms, 8 * terms**0.5) * U[accumulate] * magnitude</code>, plus the error
# of storing.</details>

# %% cell="setup"

# %% cell="solution" id="tolerance"
def tolerance(terms, magnitude, expected, accumulate, stored):
    """Return the largest error of a correct result: a sum of `terms` terms whose absolute values add up to magnitude.

    expected, magnitude: numbers. accumulate, stored: "fp32", "fp16" or "bf16".
    """
    ### BEGIN SOLUTION
    u = {"fp32": 2**-24, "fp16": 2**-11, "bf16": 2**-8}
    return min(terms, 8 * terms**0.5) * u[accumulate] * magnitude + u[stored] * abs(expected)
    ### END SOLUTION


# %% cell="check" exercise="04_tolerances/tolerance"
lab.check("04_tolerances/tolerance")

# %%
lab.claims("04_tolerances")  # a two-minute quiz: predict each number, then compare
# Errors of dot products of K normally distributed numbers, divided by your tolerance, and by the default tolerance of
# numpy.allclose, 1e-5 · |expected| + 1e-8. Quotients up to 1 are accepted.
from labutils import rounding

rounding.dot_products(tolerance)

# %% [markdown]
# Your tolerance (for fp32) accepts all errors of an fp32 accumulator. It rejects some errors of an fp16 accumulator.
# For K = 256 and 4096, the default tolerance rejects even the fp32 accumulator: in some sums the terms cancel, so
# |expected| and this tolerance are small.
#
# ## 2 Compare
#
# Write `agree`, a comparison for sums that were accumulated and stored in fp32. It returns True if every `yours[j]`
# differs from `expected[j]` by at most the tolerance of element j.
#
# Two values need care. [NaN](../glossary.md#nan) (not a number) is not equal to anything, not even to NaN. And infinity
# (inf) minus infinity is NaN, so the error of a correct infinity is NaN. If NaN is expected, accept only NaN; if an
# infinity is expected, accept only the same infinity.
#
# <details><summary>Hint 1</summary>Loop over the elements of the three lists. Before that, compare lengths.</details>
# <details><summary>Hint 2</summary>First handle an expected NaN, then equal values, such as two infinities. An expected
# infinity agrees with no other value. Last, compare the error with the tolerance.</details>
# <details><summary>Hint 3</summary>If an error is NaN, <code>error &gt; limit</code> is False, and so is <code>error
# &lt;= limit</code>. Which of these two tests must be True for a result that you accept?</details>


# %% cell="solution" id="agree"
import math


def agree(yours, expected, magnitude, terms):
    """Return whether `yours`, a list of sums of `terms` terms each, is correct. All arguments but terms are lists."""
    ### BEGIN SOLUTION
    if len(yours) != len(expected):
        return False
    for a, b, m in zip(yours, expected, magnitude, strict=True):
        if math.isnan(b):
            if not math.isnan(a):
                return False
        elif a != b and not (math.isfinite(b) and abs(a - b) <= tolerance(terms, m, b, "fp32", "fp32")):
            return False
    return True
    ### END SOLUTION


# %% cell="check" exercise="04_tolerances/agree"
lab.check("04_tolerances/agree")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A test compares a [matmul](../glossary.md#matmul) with `torch.testing.assert_close(c, reference,
# rtol=1e-3, atol=1e-2)`: errors may be at most atol + rtol · |reference|. The test passes for inputs from
# `torch.randn`. In a real model, one of the matrices has elements of about 0.02. What can go wrong if you use this test
# in the model, and which tolerance would you use instead?
#
# ### BEGIN SOLUTION
# With such elements, results are small, perhaps 0.1, and 1e-2 is a tenth of them: the test accepts a kernel that leaves
# out some of the K products, or accumulates in fp16. For larger inputs it would reject correct kernels. An absolute
# tolerance fits only one size of numbers. Compare each element with a tolerance from the magnitude of its terms, |a| @
# |b|, the number of terms K, and the formats of accumulator and result, and compute the reference in float64.
# ### END SOLUTION

# %% [markdown]
# **Next.** Integers up to 2^24 are exact in fp32. So with small integers as inputs, correct results have the same bits
# in any order of additions, and a test can require equality. Many checks in this course have one such test case; the
# others use the formula of part 1. Continue with `05_roofline`.
#
# **In practice** `torch.testing.assert_close` has a default tolerance for each dtype. This function does not know how
# many terms were added or how large they were. If the inputs are rounded, for example to fp16, compute the reference in
# float64 from the *rounded* inputs: their rounding is not the kernel's error.
#
# **Reading.** N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, chapters 3 and 4: error bounds of sums.
# [torch.testing](https://docs.pytorch.org/docs/stable/testing.html): defaults of `assert_close`.
