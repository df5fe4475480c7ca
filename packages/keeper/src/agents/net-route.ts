/** How the programs of a cell find its net window: on a port of the cell's loopback, as the proxy that each of them knows how to
 *  be told of. */

/** Nobody else has a loopback in common with a cell, so it can be the same in every one. */
export const netPort = 8378
/** The same window for programs that speak SOCKS5 and nothing else. */
const socksPort = 8379

const proxy = `http://127.0.0.1:${netPort}`
/** The cell's own. */
const direct = 'localhost,127.0.0.1,::1'

/** What git, curl, wget, npm, pnpm, yarn, pip, cargo, go, apt and most others look at; Node does when it is told to. */
export const netEnvironment: Readonly<Record<string, string>> = {
  ...both('HTTP_PROXY', proxy),
  ...both('HTTPS_PROXY', proxy),
  ...both('ALL_PROXY', proxy),
  ...both('NO_PROXY', direct),
  NODE_USE_ENV_PROXY: '1',
  YARN_HTTP_PROXY: proxy,
  YARN_HTTPS_PROXY: proxy,
}

function both(name: string, value: string): Record<string, string> {
  return { [name]: value, [name.toLowerCase()]: value }
}

/** What the forwarder is told to listen on for the window with this socket. */
export const netRoutes = (socket: string): readonly [string, string] => [`${netPort}=${socket}`, `socks:${socksPort}=${socket}`]

/** A command with what carries the net window's port to it. It is not waited for: what is started takes longer to want to go out. Where
 *  another one stands on the port already, this one ends by itself. */
export const besideNet = (
  forwarder: readonly [node: string, script: string],
  windows: string,
  command: readonly [string, ...string[]],
): readonly [string, ...string[]] => {
  const beside = '"$1" "$2" "$3" "$4" </dev/null >/dev/null 2>&1 & shift 4; exec "$@"'
  return ['/bin/sh', '-c', beside, 'beside', ...forwarder, ...netRoutes(`${windows}/net.sock`), ...command]
}

/** What looks at no variable: each a folder of the home, and a file in it. */
export const netFiles: readonly { readonly folder: string; readonly name: string; readonly text: string }[] = [
  {
    folder: '.m2',
    name: 'settings.xml',
    text: `<settings>\n  <proxies>\n${['http', 'https'].map(mavenProxy).join('')}  </proxies>\n</settings>\n`,
  },
  {
    folder: '.gradle',
    name: 'gradle.properties',
    text: ['http', 'https']
      .map((protocol) => `systemProp.${protocol}.proxyHost=127.0.0.1\nsystemProp.${protocol}.proxyPort=${netPort}\n`)
      .join(''),
  },
]

function mavenProxy(protocol: string): string {
  return [
    `    <proxy><id>anchorhold-${protocol}</id><active>true</active><protocol>${protocol}</protocol>`,
    `<host>127.0.0.1</host><port>${netPort}</port><nonProxyHosts>localhost|127.0.0.1</nonProxyHosts></proxy>\n`,
  ].join('')
}
