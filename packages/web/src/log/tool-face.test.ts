import { expect, test } from 'vitest'
import { toolFace } from './tool-face.ts'

test.each([
  ['Bash', { command: 'npm test' }, 'Ran', 'npm test'],
  ['Read', { file_path: '/workspace/src/a.ts', offset: 10, limit: 5 }, 'Read', 'src/a.ts:10–14'],
  ['Edit', { file_path: '/workspace/a', old_string: 'x', new_string: 'y' }, 'Edited', 'a'],
  ['Grep', { pattern: 'TODO', path: '/workspace/src' }, 'Searched', 'TODO in src'],
  ['TodoWrite', { todos: [{ content: 'a', status: 'completed' }, { content: 'b' }] }, 'List', '1 of 2 done'],
  ['Agent', { description: 'look around', prompt: 'Look' }, 'Sub-agent', 'look around'],
  ['mcp__x__y', { query: 'q' }, 'mcp__x__y', 'q'],
])('toolFace() of %s shows what it was about', (tool, input, verb, about) => {
  expect(toolFace({ tool, input, state: 'done', exitCode: null })).toMatchObject({ verb, about })
})

test.each([
  ['running', null, 'Run'],
  ['failed', null, 'Run'],
  ['cut', null, 'Run'],
  ['failed', 1, 'Ran'],
] as const)('toolFace() of a command that is %s with exit code %s says %s', (state, exitCode, verb) => {
  expect(toolFace({ tool: 'Bash', input: { command: 'make' }, state, exitCode }).verb).toBe(verb)
})

test.each([null, undefined, 'text', 7, [], { command: 7 }, { todos: 'x' }, { edits: [null, 1, { old_string: 2 }] }])(
  'toolFace() of an input that is %j is empty, and no error',
  (input) => {
    for (const tool of ['Bash', 'Read', 'Write', 'Edit', 'MultiEdit', 'TodoWrite', 'Agent', 'Else'])
      expect(typeof toolFace({ tool, input, state: 'done', exitCode: null }).about).toBe('string')
  },
)
