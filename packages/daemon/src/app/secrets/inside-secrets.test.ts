import { expect, test } from 'vitest'
import { createSession } from '../sessions/create-session.ts'
import { forkSession } from '../sessions/fork-session.ts'
import { insideVariables } from './inside-secrets.ts'
import { putSecret } from './secrets.ts'
import { owner, record, testParts } from '../test-parts.ts'

const value = 'deploy-0123456789abcdef'
/** A session whose keeper has been started. */
async function started(parts: ReturnType<typeof testParts>, options: Parameters<typeof createSession>[2]) {
  const session = await createSession(parts, owner, options)
  await expect.poll(() => parts.keepers.sessions).toContain(session.id)
  return session
}
const stale = { ...owner, provenAt: null }

test('createSession() gives a cell the secrets that are marked for it, by name, and says so', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'deploy-key', { value, inside: true })
  const session = await started(parts, { secrets: ['deploy-key'] })
  expect(session.secrets_inside).toEqual(['deploy-key'])
  expect(JSON.stringify(parts.store.events.after(session.id, 0, 100))).toContain('"secrets_inside":["deploy-key"]')
  expect((await started(parts, {})).secrets_inside).toEqual([])
  expect(await insideVariables(parts, { secrets: ['deploy-key'] })).toEqual({ DEPLOY_KEY: `opened sealed ${value.length}` })
})

test('createSession() refuses a secret that is not marked, one that is not there, and whoever is not the owner', async () => {
  using parts = testParts()
  await putSecret(parts, owner, 'github', { value })
  await putSecret(parts, owner, 'deploy', { value, inside: true })
  await expect(createSession(parts, owner, { secrets: ['github'] })).rejects.toMatchObject({
    message: 'Cannot give the secret "github" to a cell: it is not marked for that',
    hint: expect.stringContaining('anchorhold secret add github --inside') as string,
  })
  await expect(createSession(parts, owner, { secrets: ['none'] })).rejects.toThrow('there is none of that name')
  for (const kind of ['member', 'agent'] as const)
    await expect(createSession(parts, { ...owner, kind }, { secrets: ['deploy'] })).rejects.toMatchObject({ code: 'forbidden' })
  await expect(createSession(parts, stale, { secrets: ['deploy'] })).rejects.toMatchObject({ code: 'proof_needed' })
  const { id } = await started(parts, { secrets: ['deploy'] })
  record(parts, id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
  await expect(forkSession(parts, { ...owner, kind: 'agent' }, id, {})).rejects.toMatchObject({ code: 'forbidden' })
  // Once it is stored without the mark, no further cell gets it.
  await putSecret(parts, owner, 'later', { value, inside: true })
  await putSecret(parts, owner, 'later', { value })
  await expect(insideVariables(parts, { secrets: ['later'] })).rejects.toThrow('not marked')
})

test.each(['path', 'ld_preload', 'https-proxy', 'ANTHROPIC_BASE_URL', 'node_options'])(
  'putSecret() does not mark "%s" for cells: they live by a variable of that name',
  async (name) => {
    using parts = testParts()
    await expect(putSecret(parts, owner, name, { value, inside: true })).rejects.toThrow('one that cells live by')
    await putSecret(parts, owner, name, { value })
  },
)
