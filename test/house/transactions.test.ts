import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const daemon = join(import.meta.dirname, '../../packages/daemon/src')
/** Who puts records of other processes into the log: they are told between what is only being said. */
const byThemselves = ['processes/sources.ts', 'transaction.ts']

test('what the daemon stores and tells goes through transaction(): no verb begins one, appends or publishes by itself', () => {
  const files = readdirSync(daemon, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('store/') && !byThemselves.includes(path),
  )
  const found = files.filter((path) =>
    /\.atomically\(|\b(?:events|house)\.append\(|\bhub\.stored\(/.test(readFileSync(join(daemon, path), 'utf8')),
  )
  expect(found).toEqual([])
  expect(files.length).toBeGreaterThan(100)
})

test('a verb names the parts that it takes, and not all of them', () => {
  const files = readdirSync(join(daemon, 'app'), { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.endsWith('test-parts.ts'),
  )
  const found = files.filter((path) =>
    /[,(]\s*(?:parts|\{[^}]*\}): Parts[,)]/.test(readFileSync(join(daemon, 'app', path), 'utf8')),
  )
  expect(found).toEqual([])
  expect(files.length).toBeGreaterThan(50)
})
