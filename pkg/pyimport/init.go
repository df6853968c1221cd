package pyimport

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// InitFunction returns the name of the init function of an extension module (PEP 489):
// PyInit_ and the last part of the module's name, or PyInitU_ and its punycode with "-"
// as "_".
func InitFunction(module string) string {
	name := module[strings.LastIndexByte(module, '.')+1:]
	if strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return "PyInit_" + name
	}
	if code, err := idna.Punycode.ToASCII(name); err == nil {
		name = strings.TrimPrefix(code, "xn--")
	}
	return "PyInitU_" + strings.ReplaceAll(name, "-", "_")
}

// InitFunction2 returns the name of the init function of an extension module of Python 2.
func InitFunction2(module string) string {
	return "init" + module[strings.LastIndexByte(module, '.')+1:]
}

// WithoutInit returns the exception for an extension module without its init function
// (_PyImport_LoadDynamicModuleWithSpec, Python/importdl.c, of Python 3 and 2). doubt is the
// failure's Doubt.
func WithoutInit(function, doubt string) *Failure {
	if strings.HasPrefix(function, "init") {
		return &Failure{Type: "ImportError", Text: noInit + "init function (" + function + ")", Doubt: doubt}
	}
	return &Failure{Type: "ImportError", Text: noInit + "module export function (" + function + ")", Doubt: doubt}
}

const noInit = "dynamic module does not define "
