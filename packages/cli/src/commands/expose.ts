import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { checkReach } from '../reach.ts'

type Way = {
  /** The file that the other program reads, if it needs one. */
  readonly file: { readonly name: string; readonly text: string } | null
  /** What is to be run, one by one; `FILE` is where the file lies. */
  readonly commands: readonly string[]
}
type Place = { readonly port: string; readonly host: string }

const ways: Readonly<Record<string, (place: Place) => Way>> = {
  tailscale: ({ port, host }) => ({
    file: null,
    commands: [
      `tailscale serve --bg --https=443 http://127.0.0.1:${port}   # for the devices of your tailnet`,
      `tailscale funnel --bg --https=443 http://127.0.0.1:${port}  # or for everybody`,
      `anchorhold up --public-url https://${host}`,
    ],
  }),
  cloudflare: ({ port, host }) => ({
    file: {
      name: 'cloudflared.yml',
      text: `tunnel: anchorhold\ningress:\n  - hostname: ${host}\n    service: http://127.0.0.1:${port}\n  - service: http_status:404\n`,
    },
    commands: [
      'cloudflared tunnel login',
      'cloudflared tunnel create anchorhold',
      `cloudflared tunnel route dns anchorhold ${host}`,
      'cloudflared tunnel --config FILE run anchorhold',
      `anchorhold up --public-url https://${host}`,
    ],
  }),
  caddy: ({ port, host }) => ({
    file: { name: 'Caddyfile', text: `${host} {\n\treverse_proxy 127.0.0.1:${port}\n}\n` },
    commands: ['caddy run --config FILE', `anchorhold up --public-url https://${host}`],
  }),
}
const usualHost: Readonly<Record<string, string>> = { tailscale: 'MACHINE.TAILNET.ts.net' }

export function expose(program: Command, context: Context): void {
  program
    .command('expose')
    .summary('how to reach it from outside: tailscale, cloudflare or caddy; check tries the public URL')
    .argument('<how>', `${Object.keys(ways).join(', ')}, or check`)
    .option('--url <url>', 'the public URL that it is to have')
    .option('--print', 'show what would be written, and write nothing')
    .action(async (how: string, options: { url?: string; print?: true }) => {
      const running = await findDaemon(context.where())
      if (how === 'check') {
        const daemon = running ?? (await context.daemon())
        if (!(await tellReach(context, daemon, options.url ?? (await daemon.api.status()).url))) context.exit(1)
        return
      }
      const way = ways[how]
      if (way === undefined)
        throw new Failure('bad_request', `Unknown method "${how}"`, {
          hint: `Methods: ${Object.keys(ways).join(', ')}, and check`,
        })
      const port = running === null ? '7777' : new URL(running.url).port
      const { file, commands } = way({ port, host: hostOf(options.url) ?? usualHost[how] ?? 'agents.example' })
      tellWay(context, file, commands, options.print === true)
    })
}

function hostOf(url: string | undefined): string | null {
  if (url === undefined) return null
  const read = URL.parse(url)
  if (read?.protocol === 'https:' && read.pathname === '/') return read.host
  throw new Failure('bad_request', `Cannot use the public URL "${url}": it is no https address without a path`)
}

function tellWay({ terminal, where }: Context, file: Way['file'], commands: readonly string[], print: boolean): void {
  const folder = join(where().state, 'expose')
  const path = file === null ? '' : join(folder, file.name)
  if (file !== null && print) {
    terminal.line(terminal.style('dim', `# ${path}`))
    terminal.line(file.text)
  } else if (file !== null) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(path, file.text, { mode: 0o600 })
    terminal.line(`${terminal.style('green', '✓')} ${path} is written.`)
    terminal.line()
  }
  terminal.line('Run, one after the other:')
  for (const command of commands) terminal.line(`  ${command.replace('FILE', path)}`)
  terminal.line()
  terminal.line('And in config.yaml, so that it stays so and devices are told apart:')
  terminal.line(`  public_url: ${/--public-url (\S+)/.exec(commands.at(-1)!)?.[1]}`)
  terminal.line('  trusted_proxies: 1')
  terminal.line()
  terminal.line('Then: anchorhold expose check')
}

/** Tells what stands in the way from outside, each with its remedy; true when nothing does. */
export async function tellReach({ terminal }: Context, daemon: Daemon, publicUrl: string): Promise<boolean> {
  const { url } = await daemon.api.status()
  if (url !== new URL(publicUrl).origin) {
    terminal.line(`${terminal.style('red', '✗')} The daemon runs as ${url}, not as ${publicUrl}`)
    terminal.line(`  Restart it: anchorhold down, then anchorhold up --public-url ${publicUrl}`)
    return false
  }
  terminal.spin(`asking for ${publicUrl}`)
  const findings = await checkReach(daemon, publicUrl)
  for (const { ok, what, remedy } of findings) {
    terminal.line(`${ok ? terminal.style('green', '✓') : terminal.style('red', '✗')} ${terminal.foreign(what)}`)
    if (remedy !== undefined) terminal.line(`  ${terminal.foreign(remedy)}`)
  }
  return findings.every(({ ok }) => ok)
}
