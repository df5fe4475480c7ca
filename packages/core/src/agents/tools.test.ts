import { expect, test } from 'vitest'
import { meantTool, toolNamed, toolsOfAgents } from './tools.ts'

test('a tool’s name means the same with every agent', () => {
  for (const tools of Object.values(toolsOfAgents))
    for (const [name, tool] of Object.entries(tools)) expect(toolNamed(name), name).toEqual(tool)
})

test.each(['constructor', '__proto__', 'Nothing'])('toolNamed() knows nothing of %s', (name) => {
  expect(toolNamed(name)).toEqual({})
})

test('meantTool() finds the tool that a name with other letters means', () => {
  expect([meantTool('bash'), meantTool('Bash'), meantTool('WEBFETCH'), meantTool('mine')]).toEqual([
    'Bash',
    null,
    'WebFetch',
    null,
  ])
})
