import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { parseSandboxConf } from '@anchorhold/cli/launcher/sandbox-conf'
import { readConfig } from '@anchorhold/daemon/config'
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

test('every example of settings in the documents is taken', () => {
  const text = pages.map((page) => readFileSync(join(root, page), 'utf8')).join('\n')
  const blocks = (language: string) =>
    [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map((match) => match[1]!)
  const settings = blocks('yaml')
  expect(settings.length).toBeGreaterThan(1)
  const state = mkdtempSync(join(tmpdir(), 'ah-docs-'))
  mkdirSync(join(state, 'config'))
  for (const one of settings) {
    writeFileSync(join(state, 'config/config.yaml'), one)
    expect(() => readConfig(['--state', state], {})).not.toThrow()
  }
  rmSync(state, { recursive: true })
  const conf = blocks('sh').filter((block) => block.includes('EXTRA_MOUNTS'))
  expect(conf.map((block) => parseSandboxConf(block, 'docs', {}).mounts)).toEqual([['/opt/tools:/opt/tools:ro']])
})
