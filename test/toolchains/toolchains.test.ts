import { afterAll, beforeAll, expect, test } from 'vitest'
import { outputsOf } from '../e2e/installation.ts'
import { commands, shown } from '../registries/commands.ts'
import { holdsSecret, secretOf, shownAt } from '../registries/credentials.ts'
import { allThreeInMachine, allThreeOn, identity, nothingFound, putPnpm, type Setting, setUp, typed } from './setting.ts'

/** Everything in it is worked out in software. */
const machineMs = 40 * 60_000

let setting: Setting
beforeAll(async () => {
  setting = await setUp()
})
afterAll(() => setting[Symbol.asyncDispose]())

const hosts = {
  cargo: ['static.crates.io', 'crates'],
  go: ['proxy.golang.org', 'go'],
  maven: ['repo.maven.apache.org', 'maven'],
  gradle: ['repo.maven.apache.org', 'maven'],
} as const
test.each(['cargo', 'go', 'maven', 'gradle'] as const)(
  '%s finds its registry by its real name, with nothing set up, and the registry sees the real credential',
  async (name) => {
    const { it, servers, withScan } = setting
    servers.seen.length = 0
    const { session, events } = await it.run(typed(`(${commands[name]})`, 'perl scan.pl'), { workspace: withScan() })
    expect(outputsOf(events)).toContain(shown[name])
    expect(outputsOf(events)).toMatch(nothingFound())
    const [host, secret] = hosts[name]
    expect(shownAt(servers.seen, host)).toEqual([secretOf(secret)])
    expect(holdsSecret(JSON.stringify(await it.log(session.id)))).toBe(false)
  },
)

test('pnpm, a program without any Node in it, finds the registry in the same way', async () => {
  const { it, servers, withScan } = setting
  servers.seen.length = 0
  const workspace = withScan()
  putPnpm(workspace)
  const token = `printf '//registry.npmjs.org/:_authToken=\${NPM_TOKEN}\\n' > ~/.npmrc`
  const { events } = await it.run(typed(token, `(${commands.pnpm})`, 'perl scan.pl'), { workspace })
  expect(outputsOf(events)).toContain(shown.pnpm)
  expect(outputsOf(events)).toMatch(nothingFound())
  expect(shownAt(servers.seen, 'registry.npmjs.org')).toEqual([secretOf('npm')])
})

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

test('gh makes a pull request with a placeholder, and what no rule lets it change is refused in words that it shows', async () => {
  const { it, github, servers, withScan } = setting
  servers.seen.length = 0
  const change = (name: string) => `gh api graphql -f query='mutation { ${name}(input: { x: 1 }) { clientMutationId } }' 2>&1`
  const { events } = await it.run(
    typed(
      'gh pr create -R me/mine --head agent/one --base main --title "from a cell" --body words; echo "create $?"',
      `${change('deleteRef')}; echo "delete $?"`,
      `${change('one: createPullRequest(input: {}) { clientMutationId } two: mergePullRequest')}; echo "two $?"`,
      'gh api -X POST repos/me/other/pulls -f title=x 2>&1; echo "other $?"',
      'perl scan.pl',
    ),
    { repo: 'me/mine', workspace: withScan() },
  )
  const said = outputsOf(events)
  expect(github.made).toEqual([{ repo: 'me/mine', headRefName: 'agent/one', title: 'from a cell' }])
  expect(said).toContain('https://github.com/me/mine/pull/1\ncreate 0')
  expect(said).toMatch(/Blocked by Anchorhold[^]*delete 1/)
  expect(said).toMatch(/it makes several kinds of change at once[^]*two 1/)
  expect(said).toMatch(/A person was asked, and has not answered[^]*other 1/)
  expect(said).toMatch(nothingFound())
  expect(shownAt(servers.seen, 'api.github.com')).toEqual([secretOf('forge')])
  expect(servers.seen.some(({ path }) => path.includes('me/other'))).toBe(false)
})

test.each(['container', 'gvisor'] as const)(
  'on the rung %s git clones and pushes, npm installs and curl calls with credentials that are not in the cell',
  (rung) => allThreeOn(rung, setting),
)

test(
  'on the rung microvm git clones and pushes, npm installs and curl calls with credentials that are not in the cell',
  () => allThreeInMachine(setting),
  machineMs,
)
