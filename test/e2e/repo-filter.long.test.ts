import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Installation, installation, outputsOf, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

test('secrets of a host folder are not seen in the cell, the rest is, and what is written goes through', async () => {
  const workspace = it.workspace({
    '.env': 'KEY=hunter2\n',
    'main.ts': 'shown\n',
    '.git/config': '[remote "origin"]\n\turl = https://me:hunter2@example.org/a.git\n',
  })
  const script = 'cat main.ts .env .git/config; echo changed > main.ts; echo KEY=mine > late.env'
  const { session, events } = await it.run(`run \`${script}\``, { workspace })
  const output = outputsOf(events)
  expect(output).toContain('shown')
  expect(output).toContain('https://example.org/a.git')
  expect(JSON.stringify(events)).not.toContain('hunter2')
  expect(readFileSync(join(workspace, '.env'), 'utf8')).toBe('KEY=hunter2\n')
  expect(readFileSync(join(workspace, 'main.ts'), 'utf8')).toBe('changed\n')
  // What came since is looked for when the turn has ended.
  const told = async () => (await it.log(session.id)).flatMap((event) => (event.type === 'notice' ? [event.body.code] : []))
  expect(await until(async () => (await told()).length > 1 && told())).toEqual(['files_hidden', 'files_exposed'])
  // A fork works on a copy, and does not see them either.
  const fork = await it.api.fork({ params: { id: session.id }, body: {} })
  const forked = outputsOf(await it.turn(fork.id, 'run `cat .env; echo looked`'))
  expect(forked).toContain('looked')
  expect(forked).not.toContain('hunter2')
})

test('what an agent has moved to where the filter does not look stays hidden from the next session', async () => {
  const workspace = it.workspace({ 'apps/.env': 'KEY=hunter2\n', '.aws/credentials': 'hunter2\n', 'main.ts': 'shown\n' })
  await it.run('run `mkdir target; mv apps target/; mv .aws x`', { workspace })
  const { events } = await it.run('run `cat main.ts target/apps/.env x/credentials; echo looked`', { workspace })
  expect(outputsOf(events)).toMatch(/shown\n+looked/)
})

test('a snapshot has the files of now, no history, and none of the secrets in its first commit', async () => {
  const workspace = it.workspace({ '.env': 'KEY=hunter2\n', 'main.ts': 'shown\n', '.git/description': 'the history\n' })
  const { session, events } = await it.run(
    'run `git log --oneline | wc -l; git show --stat HEAD; git show HEAD; echo more > main.ts`',
    {
      workspace,
      workspace_access: 'snapshot',
    },
  )
  expect(session.workspace).not.toBe(workspace)
  expect(outputsOf(events)).toMatch(/^\s*1\n[^]*main\.ts/)
  expect(JSON.stringify(events)).not.toMatch(/hunter2|the history/)
  expect(readFileSync(join(workspace, 'main.ts'), 'utf8')).toBe('shown\n')
})
