import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compilePolicy, decide } from './decide.ts'
import { plainMeaning } from './meaning.ts'
import { propose } from './propose.ts'
import { ruleWords } from './rule-words.ts'
import { bash, policyOf } from './test-policy.ts'
import { toolMeaning } from './tool-meaning.ts'

test('propose() says each thing once, and nothing that is not needed', () => {
  const seen = [
    bash('git status && npm test'),
    bash('git status -s'),
    bash('git log | head -3'),
    bash('make test'),
    bash('make test > out'),
    toolMeaning({ kind: 'tool', tool: 'Read', input: { file_path: '/workspace/src/a.ts' } }),
    toolMeaning({ kind: 'tool', tool: 'Read', input: { file_path: '/workspace/src/b.ts' } }),
    plainMeaning({ kind: 'net', host: 'a.org', port: 443, method: 'GET', path: '/' }),
    plainMeaning({ kind: 'spend', model: 'm', needed_nanos: 1, left_nanos: 1, budget_nanos: 1 }),
  ]
  expect(propose(seen).map(ruleWords)).toEqual([
    'allow Bash "git log *"',
    'allow Bash "git status *"',
    'allow Bash "head *"',
    'allow Bash "make test *"',
    'allow Bash "npm test *"',
    'allow Bash command=make test > out',
    'allow Read on src/*',
    'allow net GET a.org:443',
  ])
})

test('propose() would have allowed all that was seen', () => {
  const word = fc.constantFrom(
    'git',
    'push',
    'bash',
    '-c',
    "'ls; make'",
    '$x',
    '*',
    '> out',
    '&&',
    '|',
    'timeout 5',
    'A=1',
    'echo',
    '"',
    '$(id)',
  )
  fc.assert(
    fc.property(
      fc.array(
        fc.array(word, { minLength: 1, maxLength: 6 }).map((words) => bash(words.join(' '))),
        { maxLength: 5 },
      ),
      (seen) => {
        const compiled = compilePolicy(policyOf(propose(seen)))
        for (const meaning of seen) expect(decide(compiled, meaning).effect).toBe('allow')
      },
    ),
    { numRuns: runs(500) },
  )
})
