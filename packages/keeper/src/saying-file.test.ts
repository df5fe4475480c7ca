import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sayingFile } from './saying-file.ts'

test('sayingFile() holds what was added since it was begun, emptied or replaced, and nothing else', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-saying-'))
  const path = join(folder, 'saying.log')
  writeFileSync(path, 'of the keeper before\n')
  const file = sayingFile(path)
  const held = () => readFileSync(path, 'utf8')
  expect(held()).toBe('')
  file.add('a\n')
  file.add('b\n')
  expect(held()).toBe('a\nb\n')
  file.empty()
  file.add('c\n')
  expect(held()).toBe('c\n')
  file.replace('d\n')
  file.add('e\n')
  expect(held()).toBe('d\ne\n')
  file.empty()
  file.add('f\n')
  expect([held(), readdirSync(folder)]).toEqual(['f\n', ['saying.log']])
  rmSync(folder, { recursive: true })
})
