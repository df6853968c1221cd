package targets

import (
	"strings"
	"testing"
)

func TestMachine(t *testing.T) {
	for gpu, want := range map[string]string{
		"L4": "L4 (sm_89)", "l40s": "L40S (sm_89)", "L40": "L40 (sm_89)", "NVIDIA L4": "L4 (sm_89)", "L4-24GB": "L4 (sm_89)",
		"sm_89": "sm_89", "SM89": "sm_89", "8.9": "sm_89", "89": "sm_89", "compute_90": "sm_90", "sm_90a": "sm_90", "12.0": "sm_120",
		"A100": "A100 (sm_80)", "NVIDIA A100-SXM4-80GB": "A100 (sm_80)", "A10": "A10 (sm_86)", "A10G": "A10G (sm_86)", "Tesla T4": "T4 (sm_75)", "Tesla V100-SXM2-16GB": "V100 (sm_70)",
		"RTX 4090": "RTX 4090 (sm_89)", "rtx4090": "rtx4090 (sm_89)", "NVIDIA GeForce RTX 5090": "RTX 5090 (sm_120)", "GeForce RTX 3060 Ti": "RTX 3060 Ti (sm_86)",
		"RTX 2080 Ti": "RTX 2080 Ti (sm_75)", "GTX 1660": "GTX 1660 (sm_75)", "Quadro RTX 6000": "RTX 6000 (sm_75)", "RTX 6000 Ada": "RTX 6000 Ada (sm_89)", "RTX 40": "RTX 40 (sm_89)",
		"RTX PRO 6000": "RTX PRO 6000 (sm_120)", "NVIDIA RTX PRO 4500 Blackwell": "RTX PRO (sm_120)", "H100 PCIe": "H100 (sm_90)", "NVIDIA GB10": "GB10 (sm_121)", "Jetson AGX Orin": "Orin (sm_87)", "": "any GPU",
	} {
		m, err := Known().Machine(gpu, "")
		if err != nil || m.Name() != want {
			t.Errorf("%q: %q, %v, want %q", gpu, m.Name(), err, want)
		}
	}
	for _, tt := range []struct{ gpu, driver, says string }{
		{"sm_130", "", "does not know the architecture sm_130"},
		{"13.0", "", "does not know the architecture sm_130"},
		{"L44", "", `does not know the GPU "L44": say its compute capability, like 8.9 (` + "`nvidia-smi --query-gpu=compute_cap --format=csv`" + `); or did you mean L4?`},
		{"MI300X", "", `does not know the GPU "MI300X": say`},
		{"A1000", "", "does not know the GPU"},
		{"L4", "new", `"new" is no release`},
		{"L4", "12.4", `"12.4" is no release`},
	} {
		if _, err := Known().Machine(tt.gpu, tt.driver); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q %q: %v, want %q", tt.gpu, tt.driver, err, tt.says)
		}
	}
	m, err := Known().Machine("L4", " 535.183.01 ")
	if err != nil || m.String() != "L4 (sm_89) with driver 535.183.01" || Known().CUDA(m) != "12.2" {
		t.Errorf("%s, %v, CUDA %s", m, err, Known().CUDA(m))
	}
}

// FuzzMachine checks that a machine that is parsed is parsed again from its own text, and has
// a known architecture.
func FuzzMachine(f *testing.F) {
	for _, s := range []string{"L4", "RTX 4090@580", "@535.183.01", "sm_90a", "8.9@550", "nvidia rtx", "@", "RTX 40@x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Known().ParseMachine(s)
		if err != nil {
			return
		}
		if m.Arch != 0 && Known().Architecture(m.Arch) == nil {
			t.Errorf("%q: the architecture %d is not known", s, m.Arch)
		}
		if again, err := Known().ParseMachine(m.Text()); err != nil || again != m {
			t.Errorf("%q: %+v is %+v, %v from its text %q", s, m, again, err, m.Text())
		}
	})
}
