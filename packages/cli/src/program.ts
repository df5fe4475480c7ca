import { Failure } from '@anchorhold/protocol/failures'
import { Command } from 'commander'
import { audit } from './commands/audit.ts'
import { cache } from './commands/cache.ts'
import { changes } from './commands/changes.ts'
import { doctor } from './commands/doctor.ts'
import { expose } from './commands/expose.ts'
import { exportLog } from './commands/export.ts'
import { image } from './commands/image.ts'
import { search } from './commands/insight.ts'
import { budget, usage } from './commands/money.ts'
import { lifecycle } from './commands/lifecycle.ts'
import { net } from './commands/net.ts'
import { policy } from './commands/policy.ts'
import { prove } from './commands/prove.ts'
import { provider } from './commands/provider.ts'
import { secret } from './commands/secret.ts'
import { requests } from './commands/requests.ts'
import { run } from './commands/run.ts'
import { sandbox } from './commands/sandbox.ts'
import { send } from './commands/send.ts'
import { service } from './commands/service.ts'
import { ls, show } from './commands/sessions.ts'
import { status } from './commands/status.ts'
import { share } from './commands/share.ts'
import { token } from './commands/token.ts'
import { up } from './commands/up.ts'
import { user } from './commands/user.ts'
import { verify } from './commands/verify.ts'
import { watch } from './commands/watch.ts'
import { context as makeContext } from './context.ts'
import { exitCodes } from './exit-codes.ts'
import { path } from './flags/values.ts'
import type { Terminal } from './terminal.ts'

/** The whole command line. Nothing is started or looked at until it is given words to parse. */
export function makeProgram(terminal: Terminal, version: string): Command {
  const program = new Command('anchorhold')
    .description('A home for coding agents on your own machine, each in a cell it cannot leave.')
    .version(version)
    .option('--state <dir>', 'keep everything under this folder (or ANCHORHOLD_STATE)', path)
    .option(
      '--token-file <file>',
      'ask with the token in this file (or ANCHORHOLD_TOKEN), at ANCHORHOLD_URL if that is set',
      path,
    )
    .exitOverride()
    .showHelpAfterError('(anchorhold --help shows every command)')
    .addHelpText(
      'after',
      `\nExit codes:\n${Object.entries(exitCodes)
        .map(([code, meaning]) => `  ${code.padStart(3)}  ${meaning}`)
        .join('\n')}`,
    )
  // An empty word comes from a variable that is not set. What is written for an agent or a program may hold one.
  program.hook('preAction', (_, { registeredArguments, args }) => {
    const empty = registeredArguments.find(({ required, variadic }, at) => required && !variadic && args[at] === '')
    if (empty !== undefined) throw new Failure('bad_request', `What stands for <${empty.name()}> is empty`)
  })
  const context = makeContext(terminal, () => program.opts<{ state?: string; tokenFile?: string }>())

  for (const add of [
    run,
    send,
    watch,
    ls,
    show,
    changes,
    lifecycle,
    requests,
    policy,
    budget,
    usage,
    net,
    search,
    audit,
    exportLog,
    verify,
    provider,
    secret,
    user,
    share,
    token,
    sandbox,
    image,
    cache,
    doctor,
    prove,
    up,
    expose,
    status,
    service,
  ])
    add(program, context)
  for (const command of program.commands) command.exitOverride()
  return program
}
