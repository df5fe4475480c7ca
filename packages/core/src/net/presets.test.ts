import type { NetAction } from '@anchorhold/protocol/actions'
import { Preset, type Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { compilePolicy, decide } from '../policy/decide.ts'
import { plainMeaning } from '../policy/meaning.ts'
import { policyOf } from '../policy/test-policy.ts'
import { presetRules, presets } from './presets.ts'
import { connectTarget } from './target.ts'

const allRules: Rule[] = Preset.options.flatMap((preset) => presetRules({ on: 'net', preset, effect: 'allow' }))
const effectOf = (rules: Rule[], method: string, url: string) => {
  const { hostname, port, pathname, search, protocol } = new URL(url)
  const portOf = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  const action: NetAction = { kind: 'net', host: hostname, port: portOf, method, path: `${pathname}${search}` }
  return decide(compilePolicy(policyOf(rules)), plainMeaning(action)).effect
}

test('presets name only hosts that can be named, each by itself', () => {
  const hosts = Object.values(presets).flatMap((all) => all.map(({ host }) => host))
  expect(hosts.filter((host) => 'misnamed' in connectTarget(`${host}:443`))).toEqual([])
})

test.each([
  ['npm', 'GET', 'https://registry.npmjs.org/left-pad', 'allow'],
  ['npm', 'POST', 'https://registry.npmjs.org/-/npm/v1/security/advisories/bulk', 'allow'],
  ['npm', 'PUT', 'https://registry.npmjs.org/left-pad', 'ask'],
  ['npm', 'GET', 'http://registry.npmjs.org/left-pad', 'ask'],
  ['npm', 'GET', 'https://evil.registry.npmjs.org/', 'ask'],
  ['pypi', 'GET', 'https://pypi.org/simple/six/', 'allow'],
  ['pypi', 'POST', 'https://pypi.org/legacy/', 'ask'],
  ['pypi', 'POST', 'https://upload.pypi.org/legacy/', 'ask'],
  ['crates', 'GET', 'https://github.com/rust-lang/crates.io-index/info/refs?service=git-upload-pack', 'allow'],
  ['crates', 'GET', 'https://github.com/rust-lang/crates.io-index/../../evil/x/info/refs', 'ask'],
  ['crates', 'PUT', 'https://crates.io/api/v1/crates/new', 'ask'],
  ['git', 'GET', 'https://github.com/a/b.git/info/refs?service=git-receive-pack', 'allow'],
  ['git', 'POST', 'https://github.com/a/b.git/git-upload-pack', 'allow'],
  ['git', 'POST', 'https://github.com/a/b.git/git-receive-pack', 'ask'],
  ['git', 'POST', 'https://github.com/a/b.git/git-receive-pack?/git-upload-pack', 'ask'],
  ['git', 'POST', 'https://github.com/session', 'ask'],
  ['debian', 'GET', 'http://deb.debian.org/debian/dists/bookworm/InRelease', 'allow'],
])('presetRules() of %s: %s %s is %s', (preset, method, url, effect) => {
  const rules = presetRules({ on: 'net', preset: Preset.parse(preset), effect: 'allow' })
  expect(effectOf(rules, method, url)).toBe(effect)
})

test('presetRules() of what is denied or passed on unread speak of the whole host', () => {
  const denied = presetRules({ on: 'net', preset: 'npm', effect: 'deny' })
  expect(effectOf([...allRules, ...denied], 'PUT', 'https://registry.npmjs.org/x')).toBe('deny')
  expect(effectOf([...allRules, ...denied], 'GET', 'https://registry.npmjs.org/x')).toBe('deny')
  const tunnels = presetRules({ on: 'net', preset: 'npm', effect: 'allow', how: 'tunnel' })
  expect(tunnels.every(({ match }) => match.method === undefined && match.path === undefined)).toBe(true)
})
