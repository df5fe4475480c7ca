import { expect, test } from 'vitest'
import { compilePolicy, decide } from './decide.ts'
import { bash, onCommand, policyOf } from './test-policy.ts'

/** What a careful operator lets an agent do unasked. */
const rules = [
  ...[
    'git status',
    'git diff',
    'git log',
    'git add',
    'git commit',
    'git show',
    'git branch',
    'git rev-parse',
    'git stash',
    'git checkout',
  ],
  ...[
    'git switch',
    'git fetch',
    'git ls-files',
    'git blame',
    'git grep',
    'git restore',
    'git merge-base',
    'git remote -v',
    'git tag',
  ],
  ...[
    'npm test',
    'npm run',
    'npm ci',
    'npm install',
    'pnpm',
    'yarn',
    'node',
    'npx tsc',
    'npx vitest',
    'npx eslint',
    'tsc',
    'vitest',
  ],
  ...['pytest', 'python', 'python3', 'ruff', 'mypy', 'cargo', 'go', 'make', 'cmake', 'uv run'],
  ...[
    'ls',
    'cat',
    'head',
    'tail',
    'grep',
    'rg',
    'find',
    'sed',
    'awk',
    'wc',
    'sort',
    'uniq',
    'cut',
    'tr',
    'diff',
    'xargs',
    'jq',
    'tree',
  ],
  ...[
    'echo',
    'printf',
    'mkdir',
    'cp',
    'mv',
    'touch',
    'pwd',
    'cd',
    'test',
    '[',
    'which',
    'command -v',
    'date',
    'du',
    'stat',
    'file',
  ],
  ...[
    'basename',
    'dirname',
    'realpath',
    'tee',
    'timeout',
    'time',
    'env',
    'sleep',
    'read',
    'export',
    'set',
    'rm',
    'kill',
    'wait',
    'seq',
  ],
  ...[
    'curl https://example.org/',
    'curl -s https://example.org/',
    'gh pr view',
    'gh run list',
    'docker ps',
    'bash -c',
    'comm',
    'nl',
    'md5sum',
  ],
].map((command) => onCommand('allow', `${command} *`))
const policy = compilePolicy(policyOf(rules))

const everyday = String.raw`
git status
git status --short
git status -sb | head -20
git diff
git diff --stat
git diff HEAD~1 -- src/index.ts
git diff --cached | head -n 100
git log --oneline -10
git log --oneline main..HEAD
git log -p --follow -- src/a.ts | head -200
git log --format='%h %s' -n 5
git log -1 --format=%H
git log --since="2 weeks ago" --author="Ada" --oneline
git show HEAD:package.json
git show --stat HEAD
git add -A
git add src/a.ts src/b.ts && git status --short
git add . && git commit -m "Fix the parser"
git commit -m 'core: do the thing' -m 'Because it was not done.'
git commit --amend --no-edit
git commit -am "wip"
git branch --show-current
git branch -a | grep feature
git checkout -b feature/x
git checkout -- src/a.ts
git switch main
git stash && npm test; git stash pop
git fetch origin
git fetch --all --prune
git rev-parse --abbrev-ref HEAD
git ls-files | wc -l
git ls-files '*.ts' | xargs wc -l
git ls-files | grep -v node_modules | head -50
git blame -L 10,20 src/a.ts
git grep -n "TODO" -- src
git restore --staged .
git remote -v
git tag --list | tail -5
git diff --name-only | xargs npx eslint --fix
git diff "$(git merge-base HEAD main)"
git log "$(git rev-parse HEAD~5)"..HEAD --oneline
echo "$(git rev-parse HEAD)"
cd packages/core && git status
cd packages/core && npm test
cd /workspace && npm run build 2>&1 | tail -20
npm test
npm test -- --run src/a.test.ts
npm test 2>&1 | tail -n 20
npm run build
npm run build && npm test
npm run lint || true
npm run build > /dev/null 2>&1 && echo ok || echo failed
npm ci --ignore-scripts
npm install --save-dev vitest
npm run typecheck 2>&1 | grep "error TS" | head -20
npm run test:unit -- --reporter=dot 2>&1 | tail -30
npm run dev > /dev/null 2>&1 & sleep 2; curl -s https://example.org/ | head -5; kill %1
pnpm install --frozen-lockfile
pnpm -r build
pnpm test --filter core
yarn build
yarn test --watchAll=false
node -e "console.log(process.version)"
node --version && npm test
node scripts/build.mjs
node -e 'const a = 1; console.log(a + 1)'
node --test test/*.test.js
node -p "require('./package.json').version"
npx tsc --noEmit
npx tsc --noEmit -p tsconfig.json 2>&1 | head -30
npx vitest run
npx vitest run src/a.test.ts 2>&1 | tail -40
npx eslint src --ext .ts,.tsx
NODE_ENV=test npm test
CI=1 npm test
CI=true FORCE_COLOR=0 npx vitest run
NODE_OPTIONS=--max-old-space-size=4096 npm run build
NODE_OPTIONS="--max-old-space-size=8192" npx tsc --noEmit
DEBUG=app:* node server.js
TZ=UTC npm test
PORT=3001 node server.js
export NODE_ENV=production && npm run build
PYTHONPATH=. pytest
PYTHONPATH=src python -m pytest tests -q
pytest
pytest -x -q tests/test_a.py
pytest tests -k "parser and not slow" 2>&1 | tail -20
python -m pytest -q
python3 -c "print(1)"
python3 script.py --verbose < input.txt
python -m venv .venv
source .venv/bin/activate && pytest
. venv/bin/activate; python manage.py test
uv run pytest -q
ruff check . --fix
mypy src
cargo build
cargo test -- --nocapture
cargo clippy --all-targets -- -D warnings
RUST_BACKTRACE=1 cargo test
RUST_LOG=debug cargo run --bin server
cargo test 2>&1 | grep -E "^(test|error)" | head -40
go build ./...
go test ./... -run TestParser -v
go vet ./... && go test ./...
GOOS=linux GOARCH=arm64 go build -o /tmp/app ./cmd/app
CGO_ENABLED=0 go build ./...
make
make -j4 test
make -C build install
make clean && make 2>&1 | tail -5
cmake -B build -S . && cmake --build build
ls
ls -la
ls -la src packages/*/src
ls *.ts
ls -R | head -100
ls ~/.config
ls "$HOME/x"
ls -la $HOME
cat package.json
cat src/a.ts src/b.ts
cat package.json | jq .scripts
cat src/{a,b}.ts
cat <<'EOF'
cat -n src/a.ts | sed -n '10,40p'
cat "$HOME/x"
head -50 README.md
head -c 1000 data.bin | file -
tail -n 50 log.txt
tail -100 /tmp/out.log | grep -i error
grep -rn "foo" src
grep -rn "foo\|bar" src --include=*.ts
grep -rn --include="*.ts" "import .* from" src | wc -l
grep -c "" file.txt
grep -E "^\s+at " log.txt | sort | uniq -c | sort -rn | head
grep -l "useState" -r src | xargs grep -L "useEffect"
rg -n "TODO" src
rg --files -g '*.ts' | head
rg -l "foo" | xargs sed -i 's/foo/bar/g'
rg "a|b" -t ts --stats 2>/dev/null | tail -5
find . -name "*.ts" -not -path "./node_modules/*"
find src -type f | wc -l
find . -name '*.test.ts' -newer package.json
find . -type f -name "*.log" -delete
find src -name '*.ts' -exec grep -l "foo" {} +
find . -name "*.json" -exec cat {} \; | head
find . -maxdepth 2 -type d | sort
find . -name "*.py" | xargs wc -l | tail -1
find . -name "*.py" -print0 | xargs -0 grep -n "import os"
sed -n '10,20p' src/a.ts
sed -n 1,200p README.md
sed -i 's/foo/bar/g' src/a.ts
sed -i.bak 's/foo/bar/' src/a.ts
sed -E 's/[0-9]+/N/g' out.txt | sort -u
sed 's/^/  /' a.txt
sed -e 's/a/b/' -e '/^$/d' a.txt
awk '{print $1}' a.txt
awk -F: '{ print $2 }' /etc/passwd | head
awk 'NR>=10 && NR<=20' src/a.ts
awk '{ sum += $1 } END { print sum }' n.txt
wc -l src/*.ts
wc -l < src/a.ts
sort a.txt | uniq -c | sort -nr
cut -d, -f1,3 data.csv | head
tr -d '\r' < a.txt | head
diff a.txt b.txt
diff <(sort a.txt) <(sort b.txt)
diff -u a.txt b.txt || true
comm -12 <(sort a.txt) <(sort b.txt)
jq '.dependencies | keys' package.json
jq -r '.[] | select(.a == 1) | .b' data.json
curl -s https://example.org/ | jq .
curl https://example.org/ -o /tmp/x.json && cat /tmp/x.json
tree -L 2 -I node_modules
echo done
echo "---"; cat a.txt; echo "---"; cat b.txt
echo "a: $x, b: $y"
echo $?
echo "exit code: $?"
echo $((2 * 3))
printf '%s\n' a b c
printf "hello\n" | tee out.txt
echo "text" > out.txt
mkdir -p src/a/b
mkdir -p build && cd build && cmake ..
cp a.txt b.txt
cp -r src dist
mv a.txt b.txt && git add -A
touch a.txt
rm -rf dist build
rm -f /tmp/a.log
pwd && ls
which node && node --version
command -v rg >/dev/null && echo yes
date +%s
du -sh node_modules
stat -c %s a.txt
test -d node_modules || npm ci
test -f package.json && cat package.json
[ -f a.txt ] && cat a.txt
[ -d .git ] && git status || echo "no repository"
[[ -f a.txt ]] && cat a.txt
if [ -f a.txt ]; then cat a.txt; fi
if [ -f Cargo.toml ]; then cargo test; elif [ -f go.mod ]; then go test ./...; else npm test; fi
if git diff --quiet; then echo clean; else echo dirty; fi
if [ "$(git branch --show-current)" = "main" ]; then echo main; fi
for f in a b c; do echo "$f"; done
for f in src/*.ts; do echo "== $f"; head -5 "$f"; done
for i in 1 2 3; do npm test 2>&1 | tail -3; done
for i in $(seq 1 5); do echo $i; done
for d in packages/*/; do (cd "$d" && npm test); done
for pkg in core cli web; do echo "$pkg: $(wc -l < packages/$pkg/src/main.ts)"; done
while read -r f; do echo "$f"; done < list.txt
git ls-files | while read -r f; do wc -l "$f"; done
git diff --name-only | while IFS= read -r file; do echo "$file"; done
timeout 60 npm test
timeout 30s npx vitest run 2>&1 | tail -20
time npm run build
(cd packages/core && npm test)
{ echo a; echo b; } | sort
(npm run build && npm test) 2>&1 | tail -20
set -e; npm run build; npm test
set -euo pipefail && make
x=$(git rev-parse HEAD) && echo "$x"
n=5; echo "$n"
version=$(node -p "require('./package.json').version"); echo "v$version"
bash -c 'npm run build && npm test'
gh pr view 12 --json title
gh run list --limit 5
docker ps -a | head
sleep 1 && echo ok
ls -la && echo "---" && cat package.json | head -20
ls /nope 2>&1 || true
ls nope 2>/dev/null; echo $?
npm test >/dev/null 2>&1; echo "exit $?"
npm test |& tail -5
kill $(cat server.pid)
`
  .trim()
  .split('\n')
  .filter((line) => line !== "cat <<'EOF'")

const multiline = [
  'git commit -m "$(cat <<\'EOF\'\ncore: fix the parser\n\nIt took `$(x)` for a call.\nEOF\n)"',
  "cat <<'EOF' | head -1\n$x `y`\nEOF",
  'git add -A && git commit -F - <<EOF\nA message\nEOF',
  "python3 - <<'PY'\nimport os\nprint(os.getcwd())\nPY",
  "node - <<'JS'\nconsole.log(`${1 + 1}`)\nJS",
  'npm run build \\\n  && npm test \\\n  && git status',
  '# look first\nls -la\ngit status --short',
  'cd packages/core\nnpm test 2>&1 | tail -20\ncd ../..',
  'for f in a b c; do\n  if [ -f "$f.txt" ]; then\n    cat "$f.txt"\n  else\n    echo "no $f"\n  fi\ndone',
  "cat > a.txt <<'EOF'\nhello\nEOF",
]
const all = [...everyday, ...multiline]

test('at least nine in ten of what agents do every day are allowed where rules mean to', () => {
  const asked = all.filter((command) => decide(policy, bash(command)).effect !== 'allow')
  expect(all.length).toBeGreaterThanOrEqual(200)
  expect(asked.length, `asked for:\n${asked.join('\n')}`).toBeLessThanOrEqual(all.length / 10)
})
