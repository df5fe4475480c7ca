import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { boundCredentials, placeholders, troubleWithCredentials } from './credentials.ts'
import { putProvider } from '../money/providers.ts'
import { deleteSecret, listSecrets, putSecret, rotateKey } from './secrets.ts'
import { owner, testParts } from '../test-parts.ts'

const value = 'ghp_0123456789abcdef'
const write = (parts: ReturnType<typeof testParts>, text: string) =>
  writeFileSync(join(parts.config.config, 'credentials.yaml'), text)

test('putSecret() stores what the gate has sealed, shows a mask of it, and nothing else ever comes back', async () => {
  using parts = testParts()
  expect(await putSecret(parts, owner, 'github', { value })).toMatchObject({ name: 'github', mask: 'ghp…ef' })
  expect(await putSecret(parts, owner, 'short', { value: 'only-nine' })).toMatchObject({ mask: '…' })
  const everything = JSON.stringify([listSecrets(parts, owner), parts.store.house.before(1000, 100), parts.store.secrets.list()])
  expect(everything).toContain('secret.changed')
  expect(everything).not.toContain(value)
  await expect(putSecret(parts, { ...owner, kind: 'member' }, 'x', { value })).rejects.toMatchObject({ code: 'forbidden' })
  expect(() => listSecrets(parts, { ...owner, kind: 'agent' })).toThrow('may not')
})

test('boundCredentials() binds secrets to endpoints as credentials.yaml says, and cells get placeholders', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  write(
    parts,
    `credentials:
  - { host: API.github.com, method: GET, path: /repos/mine/*, header: Authorization, secret: github, env: GH_TOKEN }
  - { host: git.example, port: 8443, basic: x-access-token, secret: github, placeholder: fake-token-of-mine }
  - { host: maps.example, query: key, secret: github }
`,
  )
  const box = `sealed ${value.length}`
  const placeholder = 'anchorhold-placeholder-github'
  expect(boundCredentials(parts, null)).toEqual([
    {
      ...{ host: 'api.github.com', port: 443, method: ['GET'], path: '/repos/mine/*', secret: 'github', placeholder, box },
      put: { as: 'header', name: 'Authorization', format: 'Bearer {}' },
    },
    {
      ...{ host: 'git.example', port: 8443, secret: 'github', placeholder: 'fake-token-of-mine', box },
      put: { as: 'basic', user: 'x-access-token' },
    },
    { host: 'maps.example', port: 443, secret: 'github', placeholder, box, put: { as: 'query', name: 'key' } },
  ])
  expect(placeholders(parts, null)).toEqual({ GH_TOKEN: placeholder })
  await expect(deleteSecret(parts, owner, 'github')).rejects.toMatchObject({ code: 'conflict' })
})

test('troubleWithCredentials() says what is wrong with the file, without what it holds', () => {
  using parts = testParts()
  expect(troubleWithCredentials(parts)).toBeNull()
  write(parts, `credentials:\n  - { host: a.example, header: x, secret: "${value} is no name" }\n`)
  expect(troubleWithCredentials(parts)).toMatch(/^Cannot use ".*credentials.yaml": .*secret/)
  expect(troubleWithCredentials(parts)).not.toContain(value)
  write(parts, `credentials:\n  - { host: a.example, secret: ${value}\n`)
  expect(troubleWithCredentials(parts)).toMatch(/^Cannot use ".*credentials.yaml": .*line/)
  expect(troubleWithCredentials(parts)).not.toContain(value)
})

test('boundCredentials() leaves an endpoint without its secret where that is not stored, and all others as they are', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  write(
    parts,
    'credentials:\n  - { host: a.example, header: x, secret: gone }\n  - { host: b.example, header: x, secret: github }\n',
  )
  expect(boundCredentials(parts, null).map(({ host, box }) => [host, box])).toEqual([
    ['a.example', null],
    ['b.example', `sealed ${value.length}`],
  ])
})

test('boundCredentials() hands a credential that is for some users to their sessions alone, and so is its placeholder', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  write(
    parts,
    'credentials:\n  - { host: a.example, header: x, secret: github, env: HERS, for: [ada, bob] }\n  - { host: b.example, header: x, secret: github, env: ALL }\n',
  )
  const given = (user: string | null) => [
    boundCredentials(parts, user).map(({ host }) => host),
    Object.keys(placeholders(parts, user)),
  ]
  expect(given('ada')).toEqual([
    ['a.example', 'b.example'],
    ['HERS', 'ALL'],
  ])
  for (const other of ['carol', 'Ada', null]) expect(given(other)).toEqual([['b.example'], ['ALL']])
  expect(listSecrets(parts, owner).credentials[0]).toMatchObject({ for: ['ada', 'bob'] })
})

test.each([
  ['for nobody', '{ host: a.example, header: x, secret: s, for: [] }', 'for'],
  ['two ways', '{ host: a.example, header: x, query: y, secret: s }', 'one of header, basic and query'],
  ['no way', '{ host: a.example, secret: s }', 'one of header, basic and query'],
  ['any host', '{ host: "*", header: x, secret: s }', 'cannot be one'],
  ['all hosts below one', '{ host: .example, header: x, secret: s }', 'cannot be one'],
  ['a header with a line break', '{ host: a.example, header: "x\\r\\ny", secret: s }', 'header'],
  ['a format without a place for it', '{ host: a.example, header: x, format: Bearer, secret: s }', 'format'],
  ['the value itself', '{ host: a.example, header: x, secret: s, value: v }', 'value'],
])('boundCredentials() refuses a credential with %s', (_, entry, why) => {
  using parts = testParts()
  write(parts, `credentials:\n  - ${entry}\n`)
  expect(() => boundCredentials(parts, null)).toThrow(why)
})

test('rotateKey() stores everything anew at once, and then lets the old key go', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  const credential = { from: 'sealed', box: 'provider box' } as const
  parts.store.providers.put({ name: 'p', kind: 'anthropic', baseUrl: null, auth: 'api_key', credential, model: 'm' })
  expect(await rotateKey(parts, owner)).toEqual({ resealed: 2 })
  expect(parts.store.secrets.get('github')?.box).toBe(`sealed ${value.length} anew`)
  expect(parts.store.providers.get('p')?.credential).toEqual({ from: 'sealed', box: 'provider box anew' })
  expect(parts.gate.commands.map(({ do: what }) => what).slice(-2)).toEqual(['reseal', 'resealed'])
  // One that fails before it is stored leaves the old key where it is.
  parts.gate.handle = () => {
    throw new Error('the gate died')
  }
  await expect(rotateKey(parts, owner)).rejects.toThrow('the gate died')
  expect(parts.store.secrets.get('github')?.box).toBe(`sealed ${value.length} anew`)
})

test('rotateKey() takes along what was sealed under the old key and stored while it was at work', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  const { handle } = parts.gate
  const late = Promise.withResolvers<unknown>()
  // The gate has sealed it before there was a new key, and its answer comes only now.
  parts.gate.handle = (command) => {
    if (command.do === 'seal') return late.promise
    if (command.do === 'reseal') late.resolve({ box: 'old box' })
    return handle(command)
  }
  const storing = putSecret(parts, owner, 'late', { value })
  expect(await rotateKey(parts, owner)).toEqual({ resealed: 2 })
  await storing
  expect(parts.store.secrets.get('late')?.box).toBe('old box anew')
  expect(parts.gate.commands.findLast((one) => one.do === 'resealed')).toEqual({
    do: 'resealed',
    boxes: expect.arrayContaining([`sealed ${value.length} anew`, 'old box anew']) as string[],
  })
})

test('putProvider() stores a key that was sealed after it was tried', async () => {
  using parts = testParts()
  let key = 'old'
  parts.gate.handle = (command) => {
    if (command.do === 'seal') return { box: `under the ${key} key` }
    if (command.do !== 'test') return null
    key = 'new'
    return { verdict: 'ok', message: 'It answers' }
  }
  await putProvider(parts, owner, 'p', { kind: 'anthropic', credential: { from: 'key', key: 'sk-x' } })
  expect(parts.store.providers.get('p')?.credential).toEqual({ from: 'sealed', box: 'under the new key' })
})
