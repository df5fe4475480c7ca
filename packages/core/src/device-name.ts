/** The first that fits is meant: most browsers also claim to be others. */
const browsers = [
  ['Edge', /\bEdg(?:e|A|iOS)?\//],
  ['Opera', /\bOPR\//],
  ['Samsung Internet', /\bSamsungBrowser\//],
  ['Firefox', /\b(?:Firefox|FxiOS)\//],
  ['Chrome', /\b(?:Chrome|CriOS|HeadlessChrome)\//],
  ['Safari', /\bSafari\//],
] as const
const systems = [
  ['iPhone', /\biPhone\b/],
  ['iPad', /\biPad\b/],
  ['Android', /\bAndroid\b/],
  ['ChromeOS', /\bCrOS\b/],
  ['macOS', /\bMacintosh\b/],
  ['Windows', /\bWindows\b/],
  ['Linux', /\bLinux\b/],
] as const

/** A device in a few words, from what its browser calls itself: for people to know it again, and nothing to rely on. */
export function deviceName(agent: string): string {
  const first = (names: readonly (readonly [string, RegExp])[]) => names.find(([, pattern]) => pattern.test(agent))?.[0]
  const [browser, system] = [first(browsers), first(systems)]
  if (browser === undefined) return system ?? 'Unknown browser'
  return system === undefined ? browser : `${browser} on ${system}`
}
