import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { actionOf, meaningOf } from '@anchorhold/core/policy/action-text'
import { compilePolicy, type CompiledPolicy, decide } from '@anchorhold/core/policy/decide'
import { effective } from '@anchorhold/core/policy/effective'
import { readFixtures } from '@anchorhold/daemon/policy/read-fixtures'
import { readPolicy } from '@anchorhold/daemon/policy/read-policy'
import { parseSandboxConf } from '@anchorhold/cli/launcher/sandbox-conf'
import { readConfig } from '@anchorhold/daemon/config'
import { documents, withReferences } from '../../scripts/reference.ts'

const root = join(import.meta.dirname, '../..')
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'SECURITY.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'docs/commands.md',
  'docs/network.md',
  'docs/operating.md',
  'docs/outside-access.md',
  'docs/policy.md',
  'docs/web.md',
]

test.each(documents)('%s says what the schemas say (node scripts/reference.ts writes it)', (path) => {
  const text = readFileSync(path, 'utf8')
  expect(text).toBe(withReferences(text))
  expect(text).toMatch(/<!-- \w+: made by scripts\/reference\.ts -->\n\n\| /)
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

test.each(pages)('every source file that %s names is there', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const named = [...text.matchAll(/`([\w./-]+\.(?:tsx?|mjs))`/g)].map((match) => match[1]!)
  const source = (name: string) => join(root, 'packages', name.replace('/', '/src/'))
  expect(named.filter((name) => !existsSync(join(root, name)) && !existsSync(source(name)))).toEqual([])
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

test('every list of rules in the documents is taken', () => {
  const text = pages.map((page) => readFileSync(join(root, page), 'utf8')).join('\n')
  const lists = [...text.matchAll(/^```yaml rules\n([^]*?)^```/gm)].map((match) => match[1]!)
  expect(lists.flatMap((list) => readPolicy('docs', `rules:\n${list}`).problems)).toEqual([])
  expect(lists.length).toBeGreaterThan(3)
})

test('every policy in the documents is taken, and decides as the fixtures below it say', () => {
  const text = readFileSync(join(root, 'docs/policy.md'), 'utf8')
  const blocks = [...text.matchAll(/^```yaml (policy|fixtures)\n([^]*?)^```/gm)].map(([, kind, body]) => ({
    kind: kind!,
    body: body!,
  }))
  let compiled: CompiledPolicy | null = null
  let held = 0
  for (const { kind, body } of blocks) {
    if (kind === 'policy') {
      const { settings, problems } = readPolicy('docs/policy.md', body)
      expect(problems).toEqual([])
      compiled = compilePolicy(effective([settings!], { autonomy: null, observe: false, mayWiden: true }).policy)
      continue
    }
    for (const { action, expect: effect } of readFixtures(body)) {
      expect({ action, effect: decide(compiled!, meaningOf(actionOf(action))).effect }).toEqual({ action, effect })
      held++
    }
  }
  expect(held).toBeGreaterThan(15)
})
