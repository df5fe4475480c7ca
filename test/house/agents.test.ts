import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const source = join(import.meta.dirname, '../../packages/keeper/src')
/** The driver itself, the table that names it, and what tests start a keeper with. */
const mayKnow = /^agents\/(claude\/|drivers\.ts$)|^fake-start\.ts$|\.test\.ts$/

test('a keeper knows nothing of an agent outside of its driver', () => {
  const files = globSync('**/*.ts', { cwd: source }).filter((file) => !mayKnow.test(file))
  expect(files.length).toBeGreaterThan(100)
  expect(files.filter((file) => /claude|anthropic/i.test(readFileSync(join(source, file), 'utf8')))).toEqual([])
})
