import { afterAll, beforeAll, expect, test } from 'vitest'
import { outputsOf } from '../e2e/installation.ts'
import { commands, shown } from '../registries/commands.ts'
import { holdsSecret, secretOf, shownAt } from '../registries/credentials.ts'
import { allThreeOn, identity, nothingFound, type Setting, setUp, typed } from './setting.ts'

let setting: Setting
beforeAll(async () => {
  setting = await setUp()
})
afterAll(() => setting[Symbol.asyncDispose]())

const hosts = { cargo: ['static.crates.io', 'crates'], go: ['proxy.golang.org', 'go'], maven: ['repo.maven.apache.org', 'maven'] }
test.each(['cargo', 'go', 'maven'] as const)(
  '%s finds its registry by its real name, with nothing set up, and the registry sees the real credential',
  async (name) => {
    const { it, servers, withScan } = setting
    const { session, events } = await it.run(typed(`(${commands[name]})`, 'perl scan.pl'), { workspace: withScan() })
    expect(outputsOf(events)).toContain(shown[name])
    expect(outputsOf(events)).toMatch(nothingFound())
    const [host, secret] = hosts[name] as [string, string]
    expect(shownAt(servers.seen, host)).toEqual([secretOf(secret)])
    expect(holdsSecret(JSON.stringify(await it.log(session.id)))).toBe(false)
  },
)

test('git-lfs brings files there and back, and gh asks the forge, with a token that only the forge has seen', async () => {
  const { it, servers, withScan } = setting
  const { events } = await it.run(
    typed(
      `${identity}; git lfs install --skip-repo`,
      'git clone -q https://github.com/me/mine.git r && cd r && git lfs track "*.bin" && head -c 300000 /dev/urandom > large.bin',
      'git add . && git commit -qm large && git push -q origin HEAD:refs/heads/agent/large; echo "push $?"',
      'cd .. && git clone -q -b agent/large https://github.com/me/mine.git again && cmp r/large.bin again/large.bin && echo "the same file"',
      'cd again && git lfs ls-files --size; echo "token is $GH_TOKEN"',
      'gh api repos/me/mine; gh api repos/me/other; gh pr list -R me/mine',
      'cd .. && perl scan.pl',
    ),
    { repo: 'me/mine', workspace: withScan() },
  )
  const said = outputsOf(events)
  expect(said).toContain('push 0')
  expect(said).toContain('the same file')
  expect(said).toMatch(/\* large\.bin \(300 KB\)/)
  expect(said).toContain('token is anchorhold-placeholder-forge')
  expect(said).toContain('"full_name":"me/mine"')
  expect(said).toContain('a pull request')
  expect(said).toMatch(nothingFound())
  const lfs = servers.seen.filter(({ path }) => path.includes('/info/lfs/objects'))
  expect(lfs.map(({ method, path }) => `${method} ${path.replace(/[0-9a-f]{64}$/, 'OBJECT')}`)).toEqual(
    expect.arrayContaining([
      'POST /me/mine.git/info/lfs/objects/batch',
      'PUT /me/mine.git/info/lfs/objects/OBJECT',
      'GET /me/mine.git/info/lfs/objects/OBJECT',
    ]),
  )
  expect(shownAt(lfs, 'github.com')).toEqual([secretOf('forge')])
  expect(shownAt(servers.seen, 'api.github.com')).toEqual([secretOf('forge')])
  expect(servers.seen.filter(({ path }) => path.startsWith('/repos/')).every(({ path }) => path.includes('me/mine'))).toBe(true)
})

test.each(['container', 'gvisor'] as const)(
  'on the rung %s git clones and pushes, npm installs and curl calls with credentials that are not in the cell',
  (rung) => allThreeOn(rung, setting),
)
