import { races, testSchedules } from './schedule.ts'

testSchedules(races, 4200, 'races of prompts against crashes')
