import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { documents, withReferences } from '../../scripts/reference.ts'

const root = join(import.meta.dirname, '../..')
const pages = ['README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/operating.md']

test.each(documents)('%s says what the schemas say (node scripts/reference.ts writes it)', (path) => {
  const text = readFileSync(path, 'utf8')
  expect(text).toBe(withReferences(text))
  expect(text).toMatch(/\| `port` \| `7777` \|/)
})

test.each(pages)('every link and picture in %s leads somewhere', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const targets = [...text.matchAll(/\]\(([^)#]+)\)/g)].map((match) => match[1]!).filter((target) => !/^https?:/.test(target))
  expect(targets.filter((target) => !existsSync(join(root, dirname(page), target)))).toEqual([])
})

test.each(pages)('every folder and file that %s names is there', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const named = [...text.matchAll(/`((?:packages|test|scripts|bin|docs)(?:\/[\w.-]+)*)`/g)].map((match) => match[1]!)
  expect(named.filter((name) => !existsSync(join(root, name)))).toEqual([])
})
