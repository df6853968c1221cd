package size

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// lineOf returns a line of a file as people read it.
func lineOf(p string, line int) string { return fmt.Sprintf("/%s:%d", p, line) }

// opaque are the ways in which a source of the image's own may import a module that no text of the image names: a
// name that is not known, code from elsewhere, plug-ins, objects that name their modules, and programs that are not known.
var opaque = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:import_module|__import__|find_spec|load_module|run_module|run_path|import_string|import_from_string|locate|resolve_name|LazyLoader|import_object|pytest\.importorskip|spacy\.load|gym(?:nasium)?\.make|hub\.load)\s*\(\s*(?:[^"'\s)]|[fF]["']|["'][^"'\n]*["']\s*[+%.])`),
	regexp.MustCompile(`\b(?:import_module|__import__|find_spec|importorskip)\s+as\b|=\s*(?:importlib\.)?(?:import_module|__import__)\s*$|\bgetattr\s*\(\s*(?:importlib|builtins|__builtins__)\b|\bmap\s*\(\s*(?:importlib\.import_module|import_module|__import__)`),
	regexp.MustCompile(`(?:^|[^.\w])(?:exec|eval|execfile|compile)\s*\(`),
	regexp.MustCompile(`\b(?:entry_points|iter_entry_points|pkgutil|iter_modules|walk_packages|packages_distributions|spec_from_file_location|spec_from_loader|SourceFileLoader|zipimport|meta_path|path_hooks|InteractiveConsole|InteractiveInterpreter|code\.interact|importlib\.metadata\.distributions|addsitedir|stevedore|pluggy|PluginManager|load_entry_point)\b`),
	regexp.MustCompile(`\b(?:c?[pP]ickle|joblib|cloudpickle|dill|shelve|jsonpickle|marshal|allow_pickle|unsafe_load|full_load|UnsafeLoader|FullLoader|yaml\.Loader|trust_remote_code|_target_|hydra|jsonargparse|LightningCLI|skops|mlflow)\b`),
	regexp.MustCompile(`\btorch\.load\s*\((?:[^()]|\([^()]*\))*\)`), // but for those with weights_only=True: see opaqueIn
	regexp.MustCompile(`\b(?:uvicorn\.run|load_app|WSGIApplication|autodiscover_tasks)\s*\(\s*(?:os\.|[fF]["']|args\b|settings\b|config\b)`),
	regexp.MustCompile(`\b[A-Z_]*(?:INSTALLED_APPS|MIDDLEWARE|PLUGINS?|EXTENSIONS?|MODULES?|BACKENDS?|LOADERS?)\b.*\b(?:environ|getenv)\b`),
	regexp.MustCompile(`\bsys\.path\s*(?:\+=|\.(?:append|insert|extend)\s*\()[^\n]*\b(?:environ|getenv|argv|args|config|settings)\b`),
}

// weightsOnly matches a call that loads no objects.
var weightsOnly = regexp.MustCompile(`\bweights_only\s*=\s*True\b`)

// opaqueIn returns the first text of a source by which it may import what it does not name, or "".
func opaqueIn(text []byte) string {
	for _, re := range opaque {
		for _, m := range re.FindAll(text, -1) {
			if !weightsOnly.Match(m) {
				return string(m)
			}
		}
	}
	for i, at := range starts.FindAllIndex(text, maxStarts) {
		if i == maxStarts-1 || !isKnownProgram(text, bytes.TrimLeft(text[at[1]:], " \t\r\n"), 0) {
			return string(text[at[0]:at[1]])
		}
	}
	return ""
}

// maxStarts limits the calls of one source that start programs.
const maxStarts = 500

// starts matches the beginning of a call that starts a program.
var starts = regexp.MustCompile(`\b(?:subprocess\.(?:run|call|Popen|check_call|check_output|getoutput|getstatusoutput)|os\.(?:system|popen|exec\w+|spawn\w+|posix_spawnp?)|Popen|check_call|check_output|create_subprocess_\w+|pty\.spawn|pexpect\.\w+)\s*\(`)

// Arguments of such a call: a text, the beginning of a list, and a variable.
var (
	argText = regexp.MustCompile(`^([fFrRbB]{0,2})(?:"([^"\n]*)"|'([^'\n]*)')`)
	argList = regexp.MustCompile(`^[\[(]\s*`)
	argName = regexp.MustCompile(`^(?:args=)?([A-Za-z_]\w*)\s*[,)]`)
	comma   = regexp.MustCompile(`^\s*,\s*`)
	goesOn  = regexp.MustCompile(`^\s*[+%.]`) // behind a text that is a part of another one
)

// runners run code that their arguments name.
var runners = []string{"python*", "pypy*", "sh", "bash", "env", "uv", "uvx", "pipx", "conda", "torchrun", "accelerate", "mpirun"}

// isKnownProgram reports whether the program that an argument names is known, and the code that it runs, if it is one of runners.
// A variable has to be known wherever the source assigns it.
func isKnownProgram(text, arg []byte, depth int) bool {
	if m := argName.FindSubmatch(arg); m != nil && depth == 0 {
		assigned := regexp.MustCompile(`(?m)^[ \t]*`+string(m[1])+`[ \t]*(?::[^=\n]+)?=[ \t]*`).FindAllIndex(text, -1)
		for _, at := range assigned {
			if !isKnownProgram(text, text[at[1]:], 1) {
				return false
			}
		}
		return len(assigned) > 0
	}
	if list := argList.Find(arg); list != nil {
		arg = arg[len(list):]
	} else if m := argText.FindSubmatch(arg); m != nil {
		line := string(m[2]) + string(m[3])
		words := strings.Fields(line)
		known := len(words) > 0 && !strings.Contains(words[0], "{")
		return known && !(strings.ContainsAny(line, "{%") && slices.ContainsFunc(words, func(w string) bool { return packs.MatchAny(runners, path.Base(w)) })) &&
			!goesOn.Match(arg[len(m[0]):])
	}
	for runs := false; ; {
		word, rest := "", arg
		if m := argText.FindSubmatch(arg); m != nil && !bytes.ContainsAny(m[0], "{%") {
			word, rest = string(m[2])+string(m[3]), arg[len(m[0]):]
		} else if bytes.HasPrefix(arg, []byte("sys.executable")) {
			word, rest = "python", arg[len("sys.executable"):]
		}
		switch {
		case word == "":
			return false
		case packs.MatchAny(runners, path.Base(word)):
			runs = true
		case !runs || !strings.HasPrefix(word, "-"):
			return true
		}
		next := comma.Find(rest)
		if next == nil {
			return false
		}
		arg = rest[len(next):]
	}
}
