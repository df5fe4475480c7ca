import { expect, test } from 'vitest'
import { compilePolicy } from './decide.ts'
import { plainMeaning } from './meaning.ts'
import { ruleWords } from './rule-words.ts'
import { suggestRule } from './suggest.ts'
import { bash, onCommand, policyOf } from './test-policy.ts'
import { toolMeaning } from './tool-meaning.ts'

const rules = [onCommand('allow', 'ls *'), onCommand('ask', 'npm publish *'), onCommand('deny', 'rm *')]
const supervised = compilePolicy(policyOf(rules))
const suggested = (command: string) => {
  const { rule } = suggestRule(supervised, bash(command))
  return rule?.on === 'tool' ? rule.match.command : rule
}

test.each([
  ['git push origin main', 'git push *'],
  ['git remote add x y', 'git remote add *'],
  ['npm run build -- --watch', 'npm run build *'],
  ['npm run', 'npm run'],
  ['npx vitest run a', 'npx vitest *'],
  ['python3 tools/x.py --all', 'python3 tools/x.py *'],
  ["python3 -c 'print(1)'", "python3 -c 'print(1)'"],
  ['cat $file', 'cat *'],
  ['docker compose up -d', 'docker compose up *'],
  ['curl -s https://a.org', 'curl -s https://a.org'],
  ['chmod +x a b', 'chmod +x a b'],
  ['make', 'make'],
  ['make test', 'make test *'],
  ['./run.sh a', './run.sh a'],
  ['git commit -m "a * b"', 'git commit *'],
  ['ls && make test', 'make test *'],
  ['timeout 5 ls', 'timeout 5 ls'],
  // What an option of theirs would write or run is not allowed along with them.
  ['rg TODO src', 'rg TODO src'],
  ['sort -u a', 'sort -u a'],
  ['sort $x', null],
  ['git grep x', 'git grep x'],
  ['git rebase main', 'git rebase main'],
  ['git log -3', 'git log *'],
  ['bundle exec rake', 'bundle exec rake'],
  ['docker exec c ls', 'docker exec c ls'],
  ['kubectl exec pod -- ls', 'kubectl exec pod -- ls'],
  ['gh api repos/x', 'gh api repos/x'],
  ['aws s3 ls x', 'aws s3 ls *'],
  ['test -f x', 'test -f x'],
  // None that would be one for everything, that would not be enough, or that is outweighed.
  ['bash', null],
  ['bash script.sh', 'bash script.sh'],
  ["bash -c 'make test'", null],
  ['env', null],
  ['sudo -u x $y', null],
  ['$x', null],
  ['make a && make b', null],
  ['make > out', null],
  ['A=1 make', null],
  ['npm publish', null],
  ['rm -rf x', null],
  ['curl $url', null],
  ["make 'x", null],
] as const)('suggestRule() for %j', (command, pattern) => {
  expect(suggested(command)).toBe(pattern)
})

test('suggestRule() says what stands in the way', () => {
  expect(suggestRule(supervised, bash('npm publish'))).toEqual({ rule: null, inTheWay: 'rule: ask Bash "npm publish *"' })
  expect(suggestRule(supervised, bash('make a && make b'))).toMatchObject({
    inTheWay: expect.stringContaining('several commands'),
  })
  expect(suggestRule(supervised, bash('ls'))).toMatchObject({ inTheWay: 'it is allowed already' })
  const restricted = compilePolicy(policyOf(rules, { autonomy: 'restricted' }))
  expect(suggestRule(restricted, bash('ls'))).toMatchObject({ inTheWay: 'autonomy restricted: every tool asks' })
})

test.each([
  [toolMeaning({ kind: 'tool', tool: 'Edit', input: { file_path: '/workspace/src/a*.ts' } }), 'allow Edit on src/*'],
  [toolMeaning({ kind: 'tool', tool: 'Read', input: { file_path: '/workspace/README.md' } }), 'allow Read on README.md'],
  [toolMeaning({ kind: 'tool', tool: 'WebFetch', input: { url: 'https://a.org/x?y' } }), 'allow WebFetch url=https://a.org/*'],
  [toolMeaning({ kind: 'tool', tool: 'mcp__a__b', input: { q: 1 } }), 'allow mcp__a__b'],
  [plainMeaning({ kind: 'net', host: 'a.org', port: 443, method: 'GET', path: '/x' }), 'allow net GET a.org:443'],
  [plainMeaning({ kind: 'net', host: 'a.org', port: 22, method: null, path: null }), 'allow net a.org:22'],
  [plainMeaning({ kind: 'host', program: 'deploy', params: { env: 'a*' } }), String.raw`allow host deploy env=a\*`],
])('suggestRule() for other actions', (meaning, words) => {
  const { rule } = suggestRule(supervised, meaning)
  expect(rule === null ? null : ruleWords(rule)).toBe(words)
})
