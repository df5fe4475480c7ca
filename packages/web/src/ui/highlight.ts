import { createBundledHighlighter, createCssVariablesTheme } from 'shiki/core'
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript'

export type Token = { readonly text: string; readonly color: string | undefined }

/** Each is fetched when it is first needed. */
const langs = {
  bash: () => import('@shikijs/langs/bash'),
  c: () => import('@shikijs/langs/c'),
  css: () => import('@shikijs/langs/css'),
  diff: () => import('@shikijs/langs/diff'),
  docker: () => import('@shikijs/langs/docker'),
  go: () => import('@shikijs/langs/go'),
  html: () => import('@shikijs/langs/html'),
  java: () => import('@shikijs/langs/java'),
  javascript: () => import('@shikijs/langs/javascript'),
  json: () => import('@shikijs/langs/json'),
  jsx: () => import('@shikijs/langs/jsx'),
  kotlin: () => import('@shikijs/langs/kotlin'),
  lua: () => import('@shikijs/langs/lua'),
  make: () => import('@shikijs/langs/make'),
  markdown: () => import('@shikijs/langs/markdown'),
  php: () => import('@shikijs/langs/php'),
  python: () => import('@shikijs/langs/python'),
  ruby: () => import('@shikijs/langs/ruby'),
  rust: () => import('@shikijs/langs/rust'),
  sql: () => import('@shikijs/langs/sql'),
  swift: () => import('@shikijs/langs/swift'),
  toml: () => import('@shikijs/langs/toml'),
  tsx: () => import('@shikijs/langs/tsx'),
  typescript: () => import('@shikijs/langs/typescript'),
  xml: () => import('@shikijs/langs/xml'),
  yaml: () => import('@shikijs/langs/yaml'),
} as const
type Language = keyof typeof langs

const names: Readonly<Record<string, Language>> = {
  sh: 'bash',
  shell: 'bash',
  zsh: 'bash',
  console: 'bash',
  // Its own grammar is larger than the rest of the app.
  'c++': 'c',
  cpp: 'c',
  h: 'c',
  dockerfile: 'docker',
  js: 'javascript',
  mjs: 'javascript',
  cjs: 'javascript',
  kt: 'kotlin',
  makefile: 'make',
  md: 'markdown',
  py: 'python',
  rb: 'ruby',
  rs: 'rust',
  ts: 'typescript',
  mts: 'typescript',
  svg: 'xml',
  yml: 'yaml',
}

const theme = createCssVariablesTheme({ name: 'house', variablePrefix: '--shiki-' })
const make = createBundledHighlighter({ langs, themes: {}, engine: () => createJavaScriptRegexEngine({ forgiving: true }) })
let made: ReturnType<typeof make> | undefined

/** The words of each line and their colours, or null for a language that is not known. */
export async function highlight(text: string, name: string): Promise<readonly (readonly Token[])[] | null> {
  const wanted = name.toLowerCase()
  const language = names[wanted] ?? (wanted in langs ? (wanted as Language) : null)
  if (language === null) return null
  const highlighter = await (made ??= make({ langs: [], themes: [theme] }))
  await highlighter.loadLanguage(language)
  return highlighter
    .codeToTokensBase(text, { lang: language, theme })
    .map((line) => line.map(({ content, color }) => ({ text: content, color })))
}
