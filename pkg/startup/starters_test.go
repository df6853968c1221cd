package startup

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"
)

// TestStarters checks for each starter which program, module or file a command line
// starts: "program ARGS", "imports MODULE", "file FILE". The starters named py: are
// console scripts of Python.
func TestStarters(t *testing.T) {
	cases := []struct{ command, want string }{
		{"tini -- app x", "app x"},
		{"tini -g -p SIGTERM app", "app"},
		{"tini -vvv -e 143 -- app -e", "app -e"},
		{"docker-init -- app", "app"},
		{"dumb-init --rewrite 15:3 -- app x", "app x"},
		{"dumb-init -v -r 15:2 app", "app"},
		{"catatonit -P -- app", "app"},
		{"my_init --quiet -- app x", "app x"},
		{"gosu app app x", "app x"},
		{"su-exec app:app app x", "app x"},
		{"setpriv --reuid=1000 --regid 1000 --clear-groups app x", "app x"},
		{"chpst -u app -o 100 app x", "app x"},
		{"setuser app app x", "app x"},
		{"runuser -u app -- app x", "app x"},
		{"runuser -c 'app x' app", "app x"},
		{"su app -c 'exec app x'", "app x"},
		{"su -s /bin/sh -c 'app x' app", "app x"},
		{"sudo -E -u app A=1 app x", "app x"},
		{"env -i A=b app x", "app x"},
		{"env -u A -C /srv A=b C=d app", "app"},
		{"env -S 'A=b app x' y", "app x y"},
		{"nice -n 5 app x", "app x"},
		{"ld.so app x", "app x"},
		{"ld-linux-x86-64.so.2 --inhibit-cache --library-path /lib --argv0=a app --list", "app --list"},
		{"ld-musl-x86_64.so.1 --library-path=/lib app", "app"},
		{"ld.so --list app", "ld.so --list app"},
		{"ionice -c2 -n 0 app x", "app x"},
		{"chrt -f 10 app x", "app x"},
		{"taskset -c 0-3 app x", "app x"},
		{"numactl --cpunodebind=0 -m 0 app x", "app x"},
		{"timeout -k 5 --signal=INT 1h app x", "app x"},
		{"stdbuf -oL -e 0 app x", "app x"},
		{"nohup app x", "app x"},
		{"setsid app x", "app x"},
		{"unshare -r --map-user 0 app x", "app x"},
		{"xvfb-run -a -s '-screen 0 1x1x24' app x", "app x"},
		{"nsys profile -o out --trace=cuda,nvtx app x", "app x"},
		{"ncu --set full -o out app x", "app x"},
		{"mpirun --allow-run-as-root -np 4 -x A -bind-to none app x", "app x"},
		{"mpiexec -n 2 --hostfile h app x", "app x"},
		{"srun -N 2 --ntasks=4 app x", "app x"},
		{"busybox sh -c 'app x'", "app x"},
		{"bash -lc 'app x'", "app x"},
		{"bash -euo pipefail -c 'app \"$1\"' zero x", "app x"},
		{"torchrun --standalone --nproc-per-node 8 t.py -x", "python t.py -x"},
		{"torchrun --nproc_per_node=2 -m pkg.train x", "python -m pkg.train x"},
		{"torchrun --no-python app x", "app x"},
		{"torchrun --signals-to-handle SIGTERM,SIGUSR1 --event_log_handler console t.py", "python t.py"},
		{"python -m torch.distributed.launch --nproc_per_node=2 t.py", "python t.py"},
		{"accelerate launch --config_file c.yaml --multi_gpu t.py -x", "python t.py -x"},
		{"accelerate launch -m pkg.t -x", "python -m pkg.t -x"},
		{"accelerate launch --num-processes 2 --fsdp_version 2 --no-python app x", "app x"},
		{"accelerate launch --use_fsdp --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP -t 3 t.py", "python t.py"},
		{"python -m accelerate.commands.launch --num_processes 2 t.py", "python t.py"},
		{"deepspeed --enable_each_rank_log logs --num_accelerators 2 --module pkg.t x", "python -m pkg.t x"},
		{"deepspeed --num_gpus 2 --master_port 1 t.py --deepspeed c.json", "python t.py --deepspeed c.json"},
		{"ray job submit --working-dir . -- app x", "app x"},
		{"gunicorn -w 4 -b :80 pkg.wsgi:app", "imports pkg.wsgi"},
		{"gunicorn pkg.wsgi:app -k gevent --chdir /srv", "imports gunicorn.workers.ggevent,imports pkg.wsgi"},
		{"gunicorn -c conf.py -k uvicorn.workers.UvicornWorker 'main:create_app()'", "file /w/conf.py,imports uvicorn.workers,imports main"},
		{"gunicorn -c python:pkg.conf main:app", "imports pkg.conf,imports main"},
		{"python -m gunicorn main:app", "imports main"},
		{"gunicorn --header-map drop --root-path /api main:app", "imports main"},
		{"uvicorn --host 0.0.0.0 pkg.main:app --port 80 --reload", "imports pkg.main"},
		{"python -m uvicorn main:app --workers 2", "imports main"},
		{"uvicorn --limit-max-requests-jitter 5 main:app", "imports main"},
		{"hypercorn main:app -b 0.0.0.0:1", "imports main"},
		{"granian --interface asgi main:app", "imports main"},
		{"daphne -b 0.0.0.0 proj.asgi:application", "imports proj.asgi"},
		{"celery -A proj.tasks worker -l info", "imports proj.tasks"},
		{"celery --app=proj.celery:app beat", "imports proj.celery:app"},
		{"sanic pkg.server.app --host 0.0.0.0", "imports pkg.server"},
		{"sanic server:create_app --factory", "imports server"},
		{"sanic server", "imports server"},
		{"panel serve --port 80 a.py notes.ipynb pkg/b.py --autoreload", "file /w/a.py,file /w/pkg/b.py"},
		{"azmlinfsrv --entry_script score.py", "file /w/score.py"},
		{"python -m rasa_sdk --actions pkg.actions", "imports pkg.actions"},
		{"python -m cog.server.http --host 0.0.0.0", "file /w/predict.py"},
		{"mlserver start models", "imports shared.runtime,imports pkg.runtime"},
		{"torchserve --start --ncs --model-store store --models a=plain --foreground", "imports handle"},
		{"torchserve --start --ts-config conf/config.properties", "imports ts.torch_handler.image_classifier"},
		{"torchserve --start --model-store=/absent --models all", "python /usr/local/bin/torchserve --start --model-store=/absent --models all"},
		{"bentoml serve .", "imports pkg.service"},
		{"bentoml serve", "imports pkg.service"},
		{"bentoml serve /bento", "imports built"},
		{"tritonserver --model-repository /repo --model-store=/absent", "file /repo/python/12/model.py"},
		{"tritonserver --model-repository /repo --model-control-mode=explicit", "tritonserver --model-repository /repo --model-control-mode=explicit"},
		{"uwsgi --http :80 --chdir /srv --wsgi-file /w/t.py", "file /w/t.py"},
		{"uwsgi --ini uwsgi.ini --master", "imports pkg.wsgi"},
		{"uwsgi uwsgi.ini:other", "imports other"},
		{"uwsgi --module=$UNKNOWN:app -p 4", "uwsgi --module=:app -p 4"},
		{"uwsgi --ini gone.ini", "uwsgi --ini gone.ini"},
		{"rq worker --config pkg.conf high", "imports pkg.conf"},
		{"taskiq worker -w 2 pkg.broker:broker pkg.tasks", "imports pkg.broker"},
		{"faststream run pkg.main:app --workers 2", "imports pkg.main"},
		{"huey_consumer pkg.main.huey -w 2", "imports pkg.main"},
		{"arq pkg.main.Settings", "imports pkg.main"},
		{"dramatiq pkg.broker:broker pkg.tasks -p 2", "imports pkg.broker,imports pkg.tasks"},
		{"alembic upgrade head", "file /w/migrations/env.py"},
		{"flask --app pkg.web run --host 0.0.0.0", "imports pkg.web"},
		{"litestar --app pkg.web:app run --host 0.0.0.0", "imports pkg.web"},
		{"fastapi run pkg/main.py --port 80", "file /w/pkg/main.py"},
		{"streamlit run app.py --server.port 80", "file /w/app.py"},
		{"chainlit run app.py -h", "file /w/app.py"},
		{"bentoml serve service:Svc --port 1", "imports service"},
		{"locust -f load.py --headless", "file /w/load.py"},
		{"serve run pkg.app:deployment", "imports pkg.app"},
		{"serve run bento.yaml", "imports pkg.text,imports other"},
		{"python -m debugpy --listen 0.0.0.0:5678 t.py", "python t.py"},
		{"coverage run --source x t.py", "python t.py"},
		{"conda run --no-capture-output -n e app x", "app x"},
		{"conda run -p /opt/conda/envs/e app x", "app x"},
		{"micromamba run -n e app x", "app x"},
		{"poetry run app x", "app x"},
		{"uv run --no-sync --extra gpu app x", "app x"},
		{"uv run t.py x", "python t.py x"},
		{"uv run -m pkg.t", "python -m pkg.t"},
		{"pipenv run app x", "app x"},
		{"pdm run app", "app"},
		{"pixi run -e prod app x", "app x"},
		{"pixi run serve --port 1", "app pixi --port 1"},
		{"pixi run chained", "app last"},
		{"pixi run gpu", "app feature"},
		{"pdm run web", "app pdm"},
		{"pipenv run web", "app pipfile"},
		{"jupyter lab --ip 0.0.0.0", "jupyter-lab --ip 0.0.0.0"},
		{"npx tool a", "node /w/node_modules/.bin/tool a"},
		{"npm exec tool a", "node /w/node_modules/.bin/tool a"},
		{"yarn tool a", "node /w/node_modules/.bin/tool a"},
		{"yarn serve", "app y"},
		{"pm2-runtime start server.js -i 2", "node server.js"},
		{"pm2-runtime server.js", "node server.js"},
		{"cross-env A=b app x", "app x"},
		{"npm start", "app x"},
		{"npm run serve", "app y"},
		{"honcho start", "app proc"},
		{"opentelemetry-instrument app x", "app x"},
		{"tini -- gosu app env A=b nice -n 1 app x", "app x"},
	}
	files := []txtar.File{
		{Name: "/usr/local/bin/python3", Data: []byte("elf")},
		{Name: "/usr/local/bin/python", Data: []byte("-> python3")},
		{Name: "/usr/bin/app", Data: []byte("elf")},
		{Name: "/usr/bin/busybox", Data: []byte("elf")},
		{Name: "/opt/conda/conda-meta/history", Data: []byte("x")},
		{Name: "/opt/conda/envs/e/conda-meta/history", Data: []byte("x")},
		{Name: "/opt/conda/bin/conda", Data: []byte("#!/usr/local/bin/python\n")},
		{Name: "/w/package.json", Data: []byte(`{"scripts":{"start":"app x","serve":"exec app y"}}`)},
		{Name: "/w/models/model-settings.json", Data: []byte(`{"implementation": "pkg.runtime.Model", "parameters": {"uri": "x"}}`)},
		{Name: "/w/models/b/model-settings.json", Data: []byte(`{"implementation": "shared.runtime.Model"}`)},
		{Name: "/w/models/c/model-settings.json", Data: []byte(`{"implementation": "other.Model", "parameters": {"environment_tarball": "env.tar.gz"}}`)},
		{Name: "/w/bentofile.yaml", Data: []byte("service: \"pkg/service.py:Svc\"\ninclude: ['*.py']\n")},
		{Name: "/w/store/plain/MAR-INF/MANIFEST.json", Data: []byte(`{"model": {"handler": "handle.py:run"}}`)},
		{Name: "/w/store/plain/handle.py", Data: []byte("import a\n")},
		{Name: "/w/other/pictures/MAR-INF/MANIFEST.json", Data: []byte(`{"model": {"handler": "image_classifier"}}`)},
		{Name: "/w/conf/config.properties", Data: []byte("model_store = other\nload_models=all\n")},
		{Name: "/w/bento.yaml", Data: []byte("applications:\n- import_path: pkg.text:app\n- import_path: other:app\n- {import_path: 'third:app', runtime_env: {pip: [x]}}\n")},
		{Name: "/bento/bento.yaml", Data: []byte("service: built:svc\n")},
		{Name: "/w/cog.yaml", Data: []byte("build: {gpu: true}\npredict: \"predict.py:Predictor\"\n")},
		{Name: "/w/predict.py", Data: []byte("import a\n")},
		{Name: "/w/t.py", Data: []byte("import a\n")},
		{Name: "/w/uwsgi.ini", Data: []byte("[other]\nwsgi = other\n[uwsgi]\nmodule = pkg.wsgi:app\nhttp = :80\n")},
		{Name: "/opt/tritonserver/backends/python/triton_python_backend_stub", Data: []byte("elf needs=libpython3.12.so.1.0")},
		{Name: "/usr/local/bin/python3.12", Data: []byte("elf")},
		{Name: "/usr/local/bin/python3", Data: []byte("elf")},
		{Name: "/repo/python/config.pbtxt", Data: []byte("name: \"python\"\nbackend: \"python\"\n")},
		{Name: "/repo/python/2/model.py", Data: []byte("import a\n")},
		{Name: "/repo/python/12/model.py", Data: []byte("import a\n")},
		{Name: "/repo/torch/config.pbtxt", Data: []byte("backend: \"pytorch\"\n")},
		{Name: "/repo/torch/1/model.py", Data: []byte("import a\n")},
		{Name: "/repo/own/config.pbtxt", Data: []byte("backend: \"python\"\nparameters: {key: \"EXECUTION_ENV_PATH\"}\n")},
		{Name: "/repo/own/1/model.py", Data: []byte("import a\n")},
		{Name: "/repo/policy/config.pbtxt", Data: []byte("backend: \"python\"\nversion_policy: { specific: { versions: [1] } }\n")},
		{Name: "/repo/policy/2/model.py", Data: []byte("import a\n")},
		{Name: "/w/alembic.ini", Data: []byte("[alembic]\nscript_location = %(here)s/migrations\n")},
		{Name: "/w/migrations/env.py", Data: []byte("import a\n")},
		{Name: "/w/Procfile", Data: []byte("web: app proc\n")},
		{Name: "/srv", Data: []byte("dir")},
		{Name: "/w/pixi.toml", Data: []byte("[tasks]\nserve = 'app pixi'\nprepare = 'true'\nchained = {cmd = ['app', 'last'], depends-on = ['prepare'], env = {A = 'b'}}\n[feature.cuda.tasks]\ngpu = 'app feature'\n")},
		{Name: "/w/pyproject.toml", Data: []byte("[tool.pdm.scripts]\nweb = {cmd = 'app pdm'}\n")},
		{Name: "/w/Pipfile", Data: []byte("[scripts]\nweb = 'app pipfile'\n")},
		{Name: "/w/node_modules/.bin/tool", Data: []byte("#!/usr/bin/env node\n")},
		{Name: "/usr/local/bin/jupyter-lab", Data: []byte("elf")},
		{Name: "/bin/sh", Data: []byte("elf")},
		{Name: "/usr/bin/env", Data: []byte("elf")},
	}
	console := set("torchrun", "accelerate", "deepspeed", "ray", "gunicorn", "uvicorn", "litestar", "hypercorn", "granian", "daphne", "celery", "rq", "taskiq", "faststream", "huey_consumer", "arq", "dramatiq", "alembic", "flask", "fastapi",
		"streamlit", "chainlit", "bentoml", "mlserver", "torchserve", "sanic", "panel", "azmlinfsrv", "locust", "serve", "coverage", "poetry", "pipenv", "pdm", "honcho", "opentelemetry-instrument", "my_init")
	node := set("npm", "npx", "yarn", "pm2-runtime", "cross-env")
	files = append(files, txtar.File{Name: "/usr/bin/node", Data: []byte("elf")})
	there := map[string]bool{"python": true, "conda": true, "busybox": true, "env": true, "bash": true}
	for _, c := range cases {
		name, _, _ := strings.Cut(c.command, " ")
		if there[name] {
			continue
		}
		there[name] = true
		body := "elf"
		if console[name] {
			body = "#!/usr/local/bin/python\n"
		}
		if node[name] {
			body = "#!/usr/bin/env node\n"
		}
		files = append(files, txtar.File{Name: "/usr/local/bin/" + name, Data: []byte(body)})
	}
	fsys, starters := testImage(t, files), testStarters(t)
	for _, c := range cases {
		r := Follow(fsys, v1.Config{Cmd: []string{"/bin/sh", "-c", "exec " + c.command}, WorkingDir: "/w", Env: []string{"PATH=/opt/conda/bin:" + defaultPath}}, starters)
		if got := lastStarted(r); got != c.want {
			t.Errorf("%s: starts %q, not %q; %v", c.command, got, c.want, r.Unknown)
		}
	}
}

// lastStarted returns what the last program of a result runs: its imports, or its arguments.
func lastStarted(r *Result) string {
	if len(r.Programs) == 0 {
		return ""
	}
	p := r.Programs[len(r.Programs)-1]
	if p.Python == nil || len(p.Python.Imports) == 0 {
		return strings.TrimPrefix(strings.Join(p.Args, " "), "/usr/local/bin/")
	}
	var list []string
	for _, i := range p.Python.Imports {
		if i.File != "" {
			list = append(list, "file "+i.File)
		} else {
			list = append(list, "imports "+i.Module)
		}
	}
	return strings.Join(list, ",")
}

// TestStarterRows checks that a row without a source, a name or a known then is refused.
func TestStarterRows(t *testing.T) {
	for _, row := range []string{
		"starters: [{names: [x], then: program}]",
		"starters: [{source: 'https://x', then: program}]",
		"starters: [{names: [x], source: 'https://x', then: what}]",
		"starters: [{names: [x], source: 'https://x', then: program, other: 1}]",
	} {
		if err := new(Starters).add([]byte(row)); err == nil {
			t.Errorf("%s is taken", row)
		}
	}
}

// TestBeside checks that the search path of a program that puts a file's directory first is known, unless
// the directory is a package, whose root may come first (fastapi).
func TestBeside(t *testing.T) {
	files := []txtar.File{
		{Name: "/usr/bin/python3", Data: []byte("elf")},
		{Name: "/usr/bin/streamlit", Data: []byte("#!/usr/bin/python3\n")},
		{Name: "/w/home.py", Data: []byte("import a\n")},
		{Name: "/w/pkg/home.py", Data: []byte("import a\n")},
		{Name: "/w/pkg/__init__.py", Data: []byte("x\n")},
	}
	for file, want := range map[string]bool{"home.py": true, "pkg/home.py": false} {
		r := Follow(testImage(t, files), v1.Config{Cmd: []string{"streamlit", "run", file}, WorkingDir: "/w"}, testStarters(t))
		if p := r.Programs[len(r.Programs)-1].Python; p == nil || p.PathKnown != want {
			t.Errorf("%s: got %+v", file, p)
		}
	}
}
