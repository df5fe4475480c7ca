import { Failure } from '@anchorhold/protocol/failures'
import { Role } from '@anchorhold/protocol/people'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { text } from 'node:stream/consumers'
import { askSecret } from '../ask-secret.ts'
import { ago, table } from '../terminal.ts'

const roles = Role.options.join(', ')

export function user(program: Command, context: Context): void {
  const command = program.command('user').summary('people and programs, and what they may do here')
  command
    .command('add')
    .summary('add a person or a program')
    .argument('<name>')
    .requiredOption('--role <role>', roles)
    .option('--policy <name>', 'the policy that the sessions of an agent are held to')
    .action(async (name: string, options: { role: string; policy?: string }) => {
      const { api } = await context.daemonOrStart()
      const role = roleOf(options.role)
      await api.addUser({ body: { name, role, ...(options.policy === undefined ? {} : { policy: options.policy }) } })
      const next = role === 'agent' ? `anchorhold token add NAME --user ${name}` : `anchorhold user invite ${name}`
      context.terminal.line(`${name} is here as ${role}. To let ${role === 'agent' ? 'it' : 'them'} in: ${next}`)
    })
  command
    .command('invite')
    .summary('make a link that logs this person in, once')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemon()
      const { url, expires_at } = await api.inviteUser({ params: { name } })
      context.terminal.line(url)
      context.terminal.error(`It logs ${name} in once, within three days: until ${new Date(expires_at).toLocaleString()}`)
      if (URL.parse(url)?.hostname === 'localhost')
        context.terminal.error('It opens on this machine alone. For other machines: anchorhold expose')
    })
  command
    .command('password')
    .summary('set the password that somebody logs in with; asks for it, or reads it from standard input')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemonOrStart()
      const password = process.stdin.isTTY ? await typedTwice() : (await text(process.stdin)).replace(/\r?\n$/, '')
      await api.setPassword({ params: { name }, body: { password } })
      context.terminal.line(`${name} can log in with it from now on.`)
    })
  command
    .command('role')
    .summary('change what somebody is; it holds from their next call on')
    .argument('<name>')
    .argument('<role>', roles)
    .option('--policy <policy>', 'the policy that the sessions of an agent are held to')
    .action(async (name: string, role: string, options: { policy?: string }) => {
      const { api } = await context.daemon()
      const changed = await api.changeUser({
        params: { name },
        body: { role: roleOf(role), ...(options.policy === undefined ? {} : { policy: options.policy }) },
      })
      context.terminal.line(`${name} is ${changed.role} from now on.`)
    })
  command
    .command('remove')
    .alias('rm')
    .summary('remove somebody: tokens, logins and open streams end at once')
    .argument('<name>')
    .action(async (name: string) => {
      const { api } = await context.daemon()
      await api.removeUser({ params: { name } })
      context.terminal.line(`${name} is removed; their sessions stay, for owners to see.`)
    })
  command
    .command('ls')
    .summary('list people and programs')
    .option('--json', 'one a line')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const { users } = await api.listUsers()
      const { terminal } = context
      if (options.json) return users.forEach((one) => terminal.line(JSON.stringify(one)))
      const rows = users.map((one) => [
        one.name,
        one.role,
        one.policy === null ? '' : `policy ${one.policy}`,
        `since ${ago(one.created_at)}`,
      ])
      for (const row of table(rows)) terminal.line(row)
    })
  program
    .command('whoami')
    .summary('who you are here')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const { api } = await context.daemon()
      const me = await api.whoAmI()
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(me))
      const policy = me.user.policy === null ? '' : `, policy ${me.user.policy}`
      terminal.line(`${me.user.name} (${me.user.role}${policy}), by the token "${terminal.foreign(me.token ?? '')}"`)
    })
}

async function typedTwice(): Promise<string> {
  const password = await askSecret('Password (not shown): ')
  if ((await askSecret('Once more: ')) === password) return password
  throw new Failure('bad_request', 'Cannot set the password: the two entries differ')
}

function roleOf(word: string): Role {
  const role = Role.safeParse(word)
  if (role.success) return role.data
  throw new Failure('bad_request', `"${word}" is not a role`, { hint: `There are: ${roles}` })
}
