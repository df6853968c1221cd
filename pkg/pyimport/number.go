package pyimport

import (
	"math"
	"strconv"
)

// floorDiv is x // y, which rounds down.
func floorDiv(x, y int64) int64 {
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q
}

// power is x ** y of integers, where that is a small one.
func power(x, y int64) value {
	if y < 0 {
		return unknownf("a float")
	}
	n := int64(1)
	if x == 0 || x == 1 || x == -1 { // these never grow, so that the loop would have y rounds
		if y == 0 || x == -1 && y%2 == 0 {
			return n
		}
		return x
	}
	for ; y > 0; y-- {
		if n > math.MaxInt32 || n < -math.MaxInt32 || x > math.MaxInt32 || x < -math.MaxInt32 {
			if x != 2 || n > 1<<60 {
				return unknownf("a large number")
			}
		}
		n *= x
	}
	return n
}

// sum is sum().
func sum(r *Run, a *args) value {
	v, ok := a.get(0, "")
	items, more := r.iterate(v)
	if !ok || more != "" {
		return unknownf("a sum of %s", more)
	}
	var total value = int64(0)
	if start, given := a.get(1, "start"); given {
		total = start
	}
	for _, item := range items {
		if !r.step() || r.raised != nil {
			break
		}
		total = r.binary("+", total, item)
	}
	return total
}

// absolute is abs().
func absolute(_ *Run, a *args) value {
	v, _ := a.get(0, "")
	switch v := v.(type) {
	case bool, int64:
		if n := toInt(v); n >= 0 {
			return n
		} else if n > math.MinInt64 {
			return -n
		}
	case float64:
		return math.Abs(v)
	}
	return unknownf("a number")
}

// round is round() to an integer, which takes the even one of two that are equally near.
func round(_ *Run, a *args) value {
	v, _ := a.get(0, "")
	if _, digits := a.get(1, "ndigits"); digits {
		return unknownf("a number")
	}
	switch v := v.(type) {
	case bool, int64:
		return toInt(v)
	case float64:
		if f := math.RoundToEven(v); math.Abs(f) < 1<<53 {
			return int64(f)
		}
	}
	return unknownf("a number")
}

// inBase makes hex, oct or bin.
func inBase(prefix string, base int) func(*Run, *args) value {
	return func(_ *Run, a *args) value {
		v, _ := a.get(0, "")
		switch v.(type) {
		case bool, int64:
			n := toInt(v)
			if n < 0 && n > math.MinInt64 {
				return "-" + prefix + strconv.FormatInt(-n, base)
			}
			if n >= 0 {
				return prefix + strconv.FormatInt(n, base)
			}
		}
		return unknownf("a text")
	}
}
