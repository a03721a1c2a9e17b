package gpu

import (
	"slices"
	"strings"
)

// model is how many multiprocessors GPUs have whose name contains a text.
type model struct {
	name            string
	multiprocessors uint16
}

// models is what NVIDIA's data sheets say, because nvidia-smi does not. The first row whose name is part of the GPU's counts, so the narrower stand
// first. A GPU that is not here has no known grain, and the settings can name it.
var models = []model{
	{"H100 PCIe", 114},
	{"H100", 132},
	{"H200", 132},
	{"H20", 78},
	{"GH200", 132},
	{"B200", 148},
	{"A100", 108},
	{"A30", 56},
	{"A40", 84},
	{"A16", 10},
	{"A10", 72},
	{"A2", 10},
	{"L40", 142},
	{"L40S", 142},
	{"L4", 58},
	{"T4", 40},
	{"V100", 80},
	{"P100", 56},
	{"P4", 20},
}

// multiprocessorsOf is how many multiprocessors a model has; 0: not known. What the settings say counts first.
func multiprocessorsOf(name string, settings map[string]uint16) uint16 {
	if n, ok := settings[name]; ok {
		return n
	}
	i := slices.IndexFunc(models, func(m model) bool { return hasWord(name, m.name) })
	if i < 0 {
		return 0
	}
	return models[i].multiprocessors
}

// hasWord reports whether a name has another in it, as words: "A100" is in "NVIDIA A100-SXM4-40GB" and not in "A1000".
func hasWord(name, word string) bool {
	for start := 0; ; {
		i := strings.Index(name[start:], word)
		if i < 0 {
			return false
		}
		before, after := start+i-1, start+i+len(word)
		if (before < 0 || !alphanumeric(name[before])) && (after == len(name) || !alphanumeric(name[after])) {
			return true
		}
		start = after
	}
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
