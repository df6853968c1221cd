package lint

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// TestTorchNames checks that torch's names are recognized, and similar ones are not.
func TestTorchNames(t *testing.T) {
	p := embedded(t)
	for name, want := range map[string]bool{
		"_ZN3c105ErrorC2ENS_14SourceLocationESs": true, "_ZNK3c106SymInt6sym_neERKS0_": true, "_ZTIN3c105ErrorE": true,
		"_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEE": true, "_ZN5torch8autograd4NodeD2Ev": true, "_ZNVK2at6Tensor3dimEv": true,
		"_ZN5torchC1Ev": true, "_ZN9torchtext3fooEv": false, "_ZN5torch": false, "_ZN10caffe2_fooEv": false,
		"ncclCommRegister": false, "_Z3fooN2at6TensorE": false, "_ZN15TracebackLoggerC1EPKc": false, "_Z": false, "": false, "_ZTI": false,
	} {
		if got := p.Namespaces(name) != nil; got != want {
			t.Errorf("%q is of known namespaces: %v", name, got)
		}
	}
}

// TestWithoutABI compares names of the two C++ ABIs, which number substitutions (S_, S0_)
// differently.
func TestWithoutABI(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", true},
		{"_ZN2at3fooESsSs", "_ZN2at3fooENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES5_", true},
		{"_ZN3c104nameB5cxx11Ev", "_ZN3c104nameEv", true},
		{"_ZN2at3fooESsSs", "_ZN2at3fooESs", false},
		{"_ZN2at3fooEi", "_ZN2at3fooEl", false},
	} {
		a, okA := withoutABI(c.a)
		b, okB := withoutABI(c.b)
		if !okA || !okB || (a == b) != c.same {
			t.Errorf("%s is %q,\n%s is %q", c.a, a, c.b, b)
		}
	}
	if _, ok := withoutABI("ncclCommRegister"); ok {
		t.Error("a name of C has no ABI to take away")
	}
}

func TestLastNumbers(t *testing.T) {
	for symbol, want := range map[string]string{"__nvJitLinkAddData_12_1": "12.1", "ncclCommRegister": "", "__nvJitLinkAddData_12": "", "a__1": ""} {
		if got := lastNumbers(symbol); got != want {
			t.Errorf("lastNumbers(%q) = %q, want %q", symbol, got, want)
		}
	}
}

// TestReaches checks that missing dependencies and cycles do not end the search.
func TestReaches(t *testing.T) {
	a, b, c := new(elfdeps.Module), new(elfdeps.Module), new(elfdeps.Module)
	a.Deps, b.Deps, c.Deps = []*elfdeps.Module{b, nil}, []*elfdeps.Module{c, a}, []*elfdeps.Module{b}
	if got := replay.Reaches(a); len(got) != 3 || got[0] != a || got[1] != b || got[2] != c {
		t.Errorf("got %v", got)
	}
	if replay.Reaches(nil) != nil {
		t.Error("nothing reaches nothing")
	}
}
