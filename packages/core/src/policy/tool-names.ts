/** Tools of agents that there are, for whoever writes one of them with other letters; there may be others. */
const names = [
  ...['Agent', 'AskUserQuestion', 'Bash', 'Edit', 'EnterPlanMode', 'ExitPlanMode', 'Glob', 'Grep', 'LS', 'Monitor', 'MultiEdit'],
  ...['NotebookEdit', 'Read', 'Skill', 'Task', 'TaskCreate', 'TaskGet', 'TaskList', 'TaskStop', 'TaskUpdate', 'TodoWrite'],
  ...['WebFetch', 'WebSearch', 'Write'],
]
const byLetters: ReadonlyMap<string, string> = new Map(names.map((name) => [name.toLowerCase(), name]))

/** The tool that is meant by a name that no tool has, because its letters are small or large; null where none is. */
export function meantTool(name: string): string | null {
  const meant = byLetters.get(name.toLowerCase())
  return meant === undefined || meant === name ? null : meant
}
