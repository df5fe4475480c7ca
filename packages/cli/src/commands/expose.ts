import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { checkReach } from '../reach.ts'
import { table } from '../terminal.ts'

type Place = { readonly port: string; readonly host: string }
type Way = {
  /** What it is, in a line. */
  readonly what: string
  /** The host where none is named; null where one must be. */
  readonly usualHost: string | null
  /** The file that the other program reads, if it needs one. */
  readonly file: ((place: Place) => { readonly name: string; readonly text: string }) | null
  /** What is to be run before the daemon has its URL, one by one; `FILE` is where the file lies. */
  readonly commands: (place: Place) => readonly string[]
}

const exampleUrl = 'https://agents.example'
const ways: Readonly<Record<string, Way>> = {
  tailscale: {
    what: 'for the devices of your own tailnet, or for everybody',
    usualHost: 'MACHINE.TAILNET.ts.net',
    file: null,
    commands: ({ port }) => [
      `tailscale serve --bg --https=443 http://127.0.0.1:${port}   # for the devices of your tailnet`,
      `tailscale funnel --bg --https=443 http://127.0.0.1:${port}  # or for everybody`,
    ],
  },
  cloudflare: {
    what: 'a tunnel, for a domain at Cloudflare',
    usualHost: null,
    file: ({ port, host }) => ({
      name: 'cloudflared.yml',
      text: `tunnel: anchorhold\ningress:\n  - hostname: ${host}\n    service: http://127.0.0.1:${port}\n  - service: http_status:404\n`,
    }),
    commands: ({ host }) => [
      'cloudflared tunnel login',
      'cloudflared tunnel create anchorhold',
      `cloudflared tunnel route dns anchorhold ${host}`,
      'cloudflared tunnel --config FILE run anchorhold',
    ],
  },
  caddy: {
    what: 'a proxy, on a machine that is reached on ports 80 and 443',
    usualHost: null,
    file: ({ port, host }) => ({ name: 'Caddyfile', text: `${host} {\n\treverse_proxy 127.0.0.1:${port}\n}\n` }),
    commands: () => ['caddy run --config FILE'],
  },
}

export function expose(program: Command, context: Context): void {
  program
    .command('expose')
    .summary('how to reach it from outside: tailscale, cloudflare or caddy; check tries the public URL')
    .argument('[how]', `${Object.keys(ways).join(', ')}, or check; shows what there is otherwise`)
    .option('--url <url>', 'the public URL that it is to have')
    .option('--print', 'show what would be written, and write nothing')
    .action(async (how: string | undefined, options: { url?: string; print?: true }) => {
      if (how === undefined) return tellWays(context, hostOf(options.url))
      const running = await findDaemon(context.where())
      if (how === 'check') {
        const daemon = running ?? (await context.daemon())
        const url = options.url ?? (await daemon.api.status()).url
        if (options.url === undefined && URL.parse(url)?.hostname === 'localhost')
          throw new Failure('conflict', 'There is nothing to check: no public URL is set', {
            hint: 'anchorhold expose shows the ways to have one; one that you have already is checked with --url',
          })
        if (!(await tellReach(context, daemon, url))) context.exit(1)
        return
      }
      const way = ways[how]
      if (way === undefined)
        throw new Failure('bad_request', `Unknown method "${how}"`, {
          hint: `Methods: ${Object.keys(ways).join(', ')}, and check`,
        })
      const host = hostOf(options.url) ?? way.usualHost
      if (host === null)
        throw new Failure('bad_request', `Cannot show the way with "${how}": it needs the public URL`, {
          hint: `Give it: --url ${exampleUrl}`,
        })
      const port = running === null ? '7777' : new URL(running.url).port
      tellWay(context, way, { port, host }, { running: running !== null, print: options.print === true })
    })
}

function hostOf(url: string | undefined): string | null {
  if (url === undefined) return null
  const read = URL.parse(url)
  if (read?.protocol === 'https:' && read.pathname === '/') return read.host
  throw new Failure('bad_request', `Cannot use the public URL "${url}": it is no https address without a path`)
}

function tellWays({ terminal }: Context, host: string | null): void {
  const url = host === null ? exampleUrl : `https://${host}`
  const rows = Object.entries(ways).map(([how, { what, usualHost }]) => [
    `anchorhold expose ${how}${usualHost === null || host !== null ? ` --url ${url}` : ''}`,
    terminal.style('dim', what),
  ])
  for (const row of table(rows)) terminal.line(row)
}

type Told = { readonly running: boolean; readonly print: boolean }

function tellWay({ terminal, where, config }: Context, way: Way, place: Place, { running, print }: Told): void {
  const file = way.file?.(place) ?? null
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
  const publicUrl = `https://${place.host}`
  terminal.line('Run, one after the other:')
  for (const command of way.commands(place)) terminal.line(`  ${command.replace('FILE', path)}`)
  // One that runs would keep the address it has.
  if (running) terminal.line('  anchorhold down')
  terminal.line(`  anchorhold up --public-url ${publicUrl}`)
  terminal.line()
  terminal.line(`And in ${config()}, so that it stays so and devices are told apart:`)
  terminal.line(`  public_url: ${publicUrl}`)
  terminal.line('  trusted_proxies: 1')
  terminal.line()
  terminal.line('Then: anchorhold expose check')
}

/** Tells what stands in the way from outside, each with its remedy; true when nothing does. */
export async function tellReach({ terminal, config }: Context, daemon: Daemon, publicUrl: string): Promise<boolean> {
  const { url } = await daemon.api.status()
  if (url !== new URL(publicUrl).origin) {
    terminal.line(`${terminal.style('red', '✗')} The daemon runs as ${url}, not as ${publicUrl}`)
    terminal.line(`  Restart it: anchorhold down, then anchorhold up --public-url ${publicUrl}`)
    return false
  }
  terminal.spin(`asking for ${publicUrl}`)
  const findings = await checkReach(daemon, publicUrl, config())
  for (const { ok, what, remedy } of findings) {
    terminal.line(`${ok ? terminal.style('green', '✓') : terminal.style('red', '✗')} ${terminal.foreign(what)}`)
    if (remedy !== undefined) terminal.line(`  ${terminal.foreign(remedy)}`)
  }
  return findings.every(({ ok }) => ok)
}
