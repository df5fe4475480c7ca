import { commandsOf } from '@anchorhold/core/policy/tool-meaning'
import { expect, test } from 'vitest'
import { executed } from './executed.ts'

/** The scripts and the programs with a folder that a text would run, each from where. */
const filesIn = (text: string) =>
  executed(commandsOf(text).map(({ words }) => words)).flatMap(({ name, base, program }) =>
    program && !name.includes('/') ? [] : [base === '' ? name : `${base}/${name}`],
  )

test.each([
  ['sh run.sh x', ['run.sh']],
  ['bash -O extglob run.sh', ['run.sh']],
  ['bash -euo pipefail run.sh', ['run.sh']],
  ['bash -oe pipefail run.sh', ['run.sh']],
  ['bash -oO pipefail extglob run.sh', ['run.sh']],
  ['bash -e run.sh', ['run.sh']],
  ['bash -p run.sh', ['run.sh']],
  ['bash +x run.sh', ['run.sh']],
  ['bash - run.sh', ['run.sh']],
  ['bash -- -x.sh', ['-x.sh']],
  ['bash a=b.sh', ['a=b.sh']],
  ['bash --rcfile f -i', ['f']],
  ['bash --init-file f -i', ['f']],
  ['timeout 5 bash -x run.sh', ['run.sh']],
  ['source env.sh', ['env.sh']],
  ['python3 -W ignore x.py', ['x.py']],
  ['python3 -uX dev x.py data.txt', ['x.py']],
  ['python3 +x.py', ['+x.py']],
  ['python3 -m tools.build', ['tools/build.py', 'tools/build/__main__.py']],
  ['python3 -um build', ['build.py']],
  ['node -r ./a.js x.js', ['./a.js', 'x.js']],
  ['node -r ./a x', ['./a.js', 'x.js']],
  ['node --require=./a.js x.js', ['./a.js', 'x.js']],
  ['node --import ./a.mjs x.mjs', ['./a.mjs', 'x.mjs']],
  ["node -r ./a.js -e 'f()'", ['./a.js']],
  ["node -e 'f()' -r ./a.js", ['./a.js']],
  ['node --unheard-of y x.js', ['x.js']],
  ['node .', ['./index.js']],
  ['deno run -A x.ts', ['x.ts']],
  ['bun run --watch x.ts', ['x.ts']],
  ['ruby -I lib x.rb', ['x.rb']],
  ['ruby -w -r ./a x.rb', ['./a.rb', 'x.rb']],
  ['perl -I lib x.pl', ['x.pl']],
  ['perl -p x.pl in', ['x.pl']],
  ['perl -CSDE x.pl', ['x.pl']],
  ['php -d a=b -f x.php', ['x.php']],
  ["lua -e 'a=1' x.lua", ['x.lua']],
  // Where folders change, each from every folder that it may be run in.
  ['(cd sub && ./run.sh)', ['sub/./run.sh']],
  ['cd sub && sh run.sh', ['sub/run.sh']],
  ['(cd sub && make); ./run.sh', ['./run.sh']],
  ['cd sub || sh run.sh', ['run.sh']],
  ['(cd a && make); cd b && sh run.sh', ['b/run.sh']],
  ['cd a && make && cd ../b && sh run.sh', ['b/run.sh']],
  ['cd a && cd - && sh run.sh', ['run.sh']],
  ['cd && sh run.sh', ['~/run.sh']],
  ['cd && cd .. && sh run.sh', ['~/../run.sh']],
])('executed() finds the files that %j runs', (text, files) => {
  expect(filesIn(text)).toEqual(expect.arrayContaining(files))
})

test.each([
  ['python3 x.py data.txt', 'data.txt'],
  ['bash -x run.sh data.txt', 'data.txt'],
  ['node --a=b x.js data.txt', 'data.txt'],
  ["bash -c 'true' data.txt", 'data.txt'],
  ['python3 - data.txt', 'data.txt'],
  ["perl -ne 'print' data.txt", 'data.txt'],
  ["ruby -e 'p 1' data.txt", 'data.txt'],
])('executed() leaves out what %j only reads', (text, file) => {
  expect(filesIn(text)).not.toContain(file)
})

test('executed() keeps to where all changes of folder lead when there are too many', () => {
  const files = filesIn(`${Array.from({ length: 30 }, (_, at) => `cd d${at}`).join(' && ')} && sh run.sh`)
  expect(files.length).toBeLessThan(20)
  expect(files[0]).toMatch(/^d0\/d1\/.*\/d29\/run\.sh$/)
})

// With a look back from each letter this takes hours.
test('executed() gets through an option of a million letters', () => {
  const option = `-${'o'.repeat(1_000_000)}`
  expect(executed([['bash', option, 'run.sh']]).map(({ name }) => name)).not.toContain('run.sh')
  expect(filesIn('bash -ooe pipefail extglob run.sh')).toEqual(['run.sh'])
})
