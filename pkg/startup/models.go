package startup

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/depth"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// Servers of models load programs that the files of a directory name. A directory that is not in the
// image may be a volume: nothing is said of it.

// maxModels limits the models of one server.
const maxModels = 64

// mlserver imports the implementations of the models below its directory, in its own process
// (mlserver/cli/serve.py, mlserver/repository/repository.py, mlserver/settings.py).
func (st *started) mlserver() {
	py := st.res.Programs[st.index].Python
	if py == nil || len(st.operands) == 0 || !Known(st.operands[0]) || !Known(st.p.dir) {
		return
	}
	root := absolute(st.operands[0], st.p.dir)
	var settings struct {
		AtStartup *bool `json:"load_models_at_startup"`
	}
	if text, why := content(st.fs, path.Join(root, "settings.json")); why == "" && json.Unmarshal([]byte(text), &settings) != nil {
		return
	}
	if settings.AtStartup != nil && !*settings.AtStartup || st.p.env["MLSERVER_LOAD_MODELS_AT_STARTUP"] != "" {
		return
	}
	py.Path = append(py.Path, root, st.p.dir)
	for _, file := range st.below(root, "model-settings.json") {
		var model struct {
			Implementation string `json:"implementation"`
			Parameters     struct {
				Environment string `json:"environment_tarball"`
				Path        string `json:"environment_path"`
			} `json:"parameters"`
		}
		text, why := content(st.fs, file)
		if why != "" || json.Unmarshal([]byte(text), &model) != nil || model.Parameters.Environment != "" || model.Parameters.Path != "" {
			continue
		}
		if i := strings.LastIndexByte(model.Implementation, '.'); i > 0 {
			if dir := path.Dir(file); !slices.Contains(py.Path, dir) {
				py.Path = slices.Insert(py.Path, 0, dir)
			}
			st.addImport(Import{Module: model.Implementation[:i], Link: Link{What: "implementation " + model.Implementation, File: file}})
		}
	}
}

// below returns the files of a name below a directory.
func (st *started) below(dir, name string) (list []string) {
	n := 0
	for e := range st.fs.Below(dir) {
		if n++; n > maxBeside || len(list) == maxModels || !st.step(1) {
			break
		}
		if path.Base(e.Path) == name && e.Type == layers.Regular {
			list = append(list, "/"+e.Path)
		}
	}
	return list
}

// torchserve imports the handlers of the models that TorchServe loads at its start, each in a worker's
// process (ts/model_server.py, ts/model_loader.py). The server goes on without a worker.
func (st *started) torchserve() {
	config := map[string]string{}
	file := "config.properties"
	for _, value := range append([]string{st.p.env["TS_CONFIG_FILE"]}, st.values([]string{"--ts-config"})...) {
		if value != "" {
			file = value
		}
	}
	if !Known(file) || !Known(st.p.dir) || st.hole {
		return
	}
	text, _ := content(st.fs, absolute(file, st.p.dir))
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "="); ok {
			config[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if config["install_py_dep_per_model"] == "true" {
		return // what a model needs is installed when it is loaded
	}
	store := config["model_store"]
	for _, value := range st.values([]string{"--model-store"}) {
		store = value
	}
	list := strings.FieldsFunc(config["load_models"], func(c rune) bool { return c == ',' || c == ' ' })
	if st.has([]string{"--models"}) {
		list = append(st.values([]string{"--models"}), st.operands...)
	}
	if store == "" || !Known(store) {
		return
	}
	store = absolute(store, st.p.dir)
	for _, model := range list[:min(len(list), maxModels)] {
		if _, file, ok := strings.Cut(model, "="); ok {
			model = file
		}
		files := []string{absolute(model, store)}
		if strings.EqualFold(model, "all") {
			files, _ = glob(st.fs, store+"/*")
		}
		for _, f := range files[:min(len(files), maxModels)] {
			st.torchModel(f)
		}
	}
}

// torchModel adds the process of a worker for a model: an archive, or a directory of the same files.
func (st *started) torchModel(file string) {
	e, _, ok := st.fs.Lookup(file)
	if !ok {
		return
	}
	own := func(name string) bool { _, is := pyenv.Member(e, name); return is }
	handler := ""
	if e.IsDir() {
		m, _, ok := st.fs.Lookup(file + "/MAR-INF/MANIFEST.json")
		if !ok {
			return
		}
		handler = pyenv.Handler(m)
		own = func(name string) bool { _, _, is := st.fs.Lookup(file + "/" + name); return is }
	} else if pyenv.IsZip(e) {
		handler = pyenv.Handler(e)
	}
	module, _, _ := strings.Cut(handler, ":")
	module = strings.TrimSuffix(path.Base(module), ".py")
	if handler == "" || !isName(module) {
		return
	}
	if !own(module + ".py") {
		if strings.Contains(handler, ".py") {
			return
		}
		module = "ts.torch_handler." + module
	}
	v := st.v
	v.unsure, v.main, v.service = st.doubted, false, true
	st.embed(st.res.Programs[st.index].Path, []string{file}, nil, v, Import{Module: module, Link: Link{What: "handler " + handler, File: file}})
}

// bentoml imports the service that the operand names: a module, or a directory whose bentofile.yaml or
// bento.yaml has it, else its service.py (bentoml's Service and its loader).
func (st *started) bentoml() {
	st.options()
	target := "."
	if len(st.operands) > 0 {
		target = st.operands[0]
	}
	if !Known(target) || !Known(st.p.dir) {
		return
	}
	dir := absolute(target, st.p.dir)
	if e, _, ok := st.fs.Lookup(dir); !ok || !e.IsDir() {
		st.app()
		return
	}
	py := st.res.Programs[st.index].Python
	for _, name := range []string{"bento.yaml", "bentofile.yaml", "bentofile.yml"} {
		service := st.yamlText(path.Join(dir, name), "service")
		if service == "" || py == nil {
			continue
		}
		if name == "bento.yaml" {
			dir = path.Join(dir, "src")
		}
		py.Path = slices.Insert(py.Path, 0, dir)
		st.addImport(Import{Module: moduleOf(service), Link: Link{What: "service: " + service, File: path.Join(dir, name)}})
		return
	}
	if _, _, ok := st.fs.Lookup(path.Join(dir, "service.py")); ok && py != nil {
		py.Path = slices.Insert(py.Path, 0, dir)
		st.addImport(Import{Module: "service", Link: st.link(target)})
	}
}

// serve imports the application of Ray Serve that the operand names, or those of a file of settings
// (ray/serve/schema.py, import_path).
func (st *started) serve() {
	if len(st.operands) == 0 || path.Ext(st.operands[0]) != ".yaml" && path.Ext(st.operands[0]) != ".yml" {
		st.app()
		return
	}
	st.options()
	if !Known(st.operands[0]) || !Known(st.p.dir) {
		return
	}
	file := absolute(st.operands[0], st.p.dir)
	var doc struct {
		ImportPath   string `yaml:"import_path"`
		Applications []struct {
			ImportPath string         `yaml:"import_path"`
			RuntimeEnv map[string]any `yaml:"runtime_env"`
		} `yaml:"applications"`
	}
	text, why := content(st.fs, file)
	if why != "" || depth.Exceeds([]byte(text), maxNested) || yaml.Unmarshal([]byte(text), &doc) != nil {
		return
	}
	add := func(name string) {
		if module := moduleOf(withoutHoles(name)); module != "" && strings.Contains(name, ":") {
			st.addImport(Import{Module: module, Link: Link{What: "import_path: " + short(name), File: file}})
		}
	}
	add(doc.ImportPath)
	for _, a := range doc.Applications[:min(len(doc.Applications), maxModels)] {
		if len(a.RuntimeEnv) == 0 { // which may install packages, or bring a directory
			add(a.ImportPath)
		}
	}
}

// moduleOf returns the module of MODULE:ATTRIBUTE, or of FILE.py:ATTRIBUTE below a directory on the path.
func moduleOf(value string) string {
	module, _, _ := strings.Cut(value, ":")
	return strings.ReplaceAll(strings.TrimSuffix(module, ".py"), "/", ".")
}

// cog executes the file of the predictor that a variable, or cog.yaml, names
// (python/cog/server/http.py).
func (st *started) cog() {
	ref := st.p.env["COG_PREDICT_TYPE_STUB"]
	link := st.link("COG_PREDICT_TYPE_STUB=" + ref)
	if ref == "" && Known(st.p.dir) {
		file := absolute("cog.yaml", st.p.dir)
		ref = st.yamlText(file, "predict")
		link = Link{What: "predict: " + ref, File: file}
	}
	if file, _, _ := strings.Cut(ref, ":"); Known(ref) && Known(st.p.dir) && strings.HasSuffix(file, ".py") {
		file = absolute(file, st.p.dir)
		if _, _, ok := st.fs.Lookup(file); ok {
			st.addImport(Import{File: file, Link: link})
		}
	}
}

// yamlText returns the text that a YAML file has for a key, or "".
func (st *started) yamlText(file, key string) string {
	text, why := content(st.fs, file)
	if why != "" || depth.Exceeds([]byte(text), maxNested) {
		return ""
	}
	var doc map[string]any
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return ""
	}
	value, _ := doc[key].(string)
	return withoutHoles(value)
}

// embed adds a process in which a program that is none of Python holds an interpreter, and imports what
// its configuration names. adds are modules that the program has itself, or to which it adds names.
func (st *started) embed(python string, dirs, adds []string, v via, i Import) {
	e, _, ok := st.fs.Lookup(python)
	if !ok || e.Object == nil {
		return
	}
	v.chain = append(slices.Clip(v.chain), i.Link)
	p := st.walk.program(python, []string{python, i.Module + i.File}, st.p, v)
	p.Kind, p.Python = KindPython, &Python{Embedded: true, Adds: adds, Path: dirs, Imports: []Import{i}}
	st.add(p)
}

// modelName is a line of a model's configuration that names a back end or a file.
var modelName = regexp.MustCompile(`(?m)^\s*(backend|platform|default_model_filename)\s*:\s*["']([^"']*)["']`)

// triton loads the models of the repositories that run in its Python back end, each in a process of its
// own (triton-inference-server/python_backend: src/pb_stub.cc, src/python_be.cc). A model that
// fails ends the server.
func (st *started) triton() {
	at := "/opt/tritonserver/backends"
	for _, dir := range st.values([]string{"--backend-directory"}) {
		at = absolute(dir, st.p.dir)
	}
	python := st.stubPython(at + "/python/triton_python_backend_stub")
	if python == "" || st.hole || !Known(at) {
		return
	}
	v := st.v
	v.unsure = st.doubted
	exit := st.values([]string{"--exit-on-error"})
	switch {
	case slices.Contains(st.values([]string{"--model-control-mode"}), "explicit"):
		return // others ask for the models, later
	case len(exit) > 0 && exit[0] != "true" && exit[0] != "1":
		v.main, v.service = false, true
	}
	for _, repository := range st.values([]string{"--model-repository", "--model-store"}) {
		if !Known(repository) || !Known(st.p.dir) || strings.Contains(repository, "://") {
			continue
		}
		models, _ := glob(st.fs, absolute(repository, st.p.dir)+"/*")
		for _, dir := range models[:min(len(models), maxModels)] {
			st.tritonModel(dir, at, python, v)
		}
	}
}

// stubPython returns the interpreter whose library the stub of the Python back end needs, or "".
func (st *started) stubPython(stub string) string {
	e, _, ok := st.fs.Lookup(stub)
	if !ok || e.Object == nil {
		return ""
	}
	for _, lib := range e.Object.Needed {
		if rest, ok := strings.CutPrefix(lib, "libpython"); ok {
			name, _, _ := strings.Cut(rest, ".so")
			if found, known := st.find("python"+name, st.p); known {
				return found
			}
		}
	}
	return ""
}

// tritonModel adds the process of a model, if it is one of the Python back end or of a back end written
// for that.
func (st *started) tritonModel(dir, backends, python string, v via) {
	config, why := content(st.fs, dir+"/config.pbtxt")
	if _, _, ok := st.fs.Lookup(dir + "/config.pbtxt"); ok && why != "" {
		return
	}
	if strings.Contains(config, "EXECUTION_ENV_PATH") || strings.Contains(config, "specific") {
		return // it has a Python of its own, or says which versions are loaded
	}
	backend, name := "", "model.py"
	for _, m := range modelName.FindAllStringSubmatch(config, -1) {
		switch m[1] {
		case "backend":
			backend = m[2]
		case "platform":
			if m[2] != "" {
				return
			}
		case "default_model_filename":
			name = m[2]
		}
	}
	version := st.lastVersion(dir)
	dirs := []string{backends + "/python", dir, version}
	file := version + "/" + name
	switch backend {
	case "python":
	case "":
		if config != "" && strings.Contains(config, "backend") || name != "model.py" {
			return
		}
	default:
		file = backends + "/" + backend + "/model.py"
		dirs = []string{backends + "/python", backends + "/" + backend}
	}
	if e, _, ok := st.fs.Lookup(file); !ok || version == "" || e.Type != layers.Regular {
		return
	}
	st.embed(python, dirs, []string{"c_python_backend_utils", "triton_python_backend_utils"}, v, Import{File: file, Link: Link{What: "model " + path.Base(dir), File: dir + "/config.pbtxt"}})
}

// lastVersion returns the directory of a model's last version, or "".
func (st *started) lastVersion(dir string) string {
	list, _ := glob(st.fs, dir+"/*")
	last, found := 0, ""
	for _, d := range list {
		if n, err := strconv.Atoi(path.Base(d)); err == nil && n > last {
			last, found = n, d
		}
	}
	return found
}
