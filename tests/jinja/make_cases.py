#!/usr/bin/env python3
"""Writes tests/jinja/cases.jsonl: variables, then templates and what jinja2 3.1.6 makes of them. Needs jinja2; to be run when a template is added:

    tests/jinja/make_cases.py > tests/jinja/cases.jsonl
"""

import json

from compare import environment

VARIABLES = {
    "name": "World",
    "empty": "",
    "none": None,
    "n": 7,
    "x": 2.5,
    "big": 1e22,
    "items": [3, 1, 2],
    "words": ["b", "A", "c"],
    "text": "  Two words,\n and a line  ",
    "wide": "größer ǅ 小さい 🙂",
    "person": {"name": "Ada", "age": 36, "items": "shadowed", "tags": ["x", "y"]},
    "people": [{"name": "Bob", "age": 5, "on": True}, {"name": "ann", "age": 40, "on": False}, {"name": "Cy", "age": 5, "on": True}],
    "nested": {"a": {"b": [1, {"c": "deep"}]}},
    "html": "<a href='x'>&\"</a>",
    "mixed": [1, "two", None, True, 2.0, {"k": "v"}, [1]],
}

TEMPLATES = """
{{ name }}|{{ none }}|{{ n }}|{{ x }}|{{ big }}|{{ items }}|{{ person }}|{{ mixed }}|{{ nothing }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1_000 }} {{ 1e3 }} {{ 2.5e-7 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ [0] * 3 }} {{ 'a' ~ 1 ~ none ~ x ~ nothing ~ [1, 'b'] }} {{ (1,) + (2, 3) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != 2 }} {{ true == 1 }} {{ none == none }} {{ nothing == nothing }}
{{ 2 in items }} {{ 'ord' in 'word' }} {{ 'name' in person }} {{ 9 not in items }} {{ 'x' in nothing }}
{{ not true }} {{ true and 'yes' }} {{ '' or 'no' }} {{ 0 and 1 }} {{ none or [] }} {{ not n == 7 }} {{ 1 if n > 5 else 2 }} {{ 'only' if false }}
{{ items[0] }} {{ items[-1] }} {{ items[9] }} {{ name[0] }} {{ name[-1] }} {{ wide[0] }}{{ wide[7] }}{{ wide[-1] }} {{ person['name'] }} {{ person.age }} {{ person['items'] }}
{{ items[1:] }} {{ items[:-1] }} {{ items[::-1] }} {{ items[::2] }} {{ name[1:3] }} {{ name[::-1] }} {{ wide[2:9:2] }} {{ items[5:] }} {{ (1, 2, 3)[-2:] }} {{ items[-100:100:1] }}
{{ nested.a.b[1].c }} {{ nested['a']['b'][0] }} {{ nested.a.zzz }} {{ none.x }} {{ person.get('zip', 'none') }} {{ person.get('name') }} {{ items.0 }}
{{ {'a': 1, 'b': [1, 2]} }} {{ {'a': 1}.a }} {{ {1: 'one', 'k': none}[1] }} {{ {} }} {{ [] }} {{ () }} {{ (1,) }} {{ 1, 2 }}
{% for i in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for i in items %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for i in [] %}x{% else %}nothing{% endfor %}{% for i in nothing %}x{% else %}undefined{% endfor %}
{% for i in range(10) if i % 3 == 0 %}{{ i }}/{{ loop.length }} {% endfor %}
{% for k, v in person.items() %}{{ k }}={{ v }};{% endfor %}{% for k in person %}{{ k }} {% endfor %}{% for c in wide %}[{{ c }}]{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in items %}{% for j in words %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}
{% for i in items %}{{ loop.cycle('odd', 'even') }} {{ loop.changed(i > 1) }} {% endfor %}
{% for t in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3, 'c': [{'v': 4, 'c': []}]}]}] recursive %}{{ t.v }}@{{ loop.depth }}({{ loop(t.c) }}){% endfor %}
{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}{% for i in [1, 2] %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}
{% set ns = namespace(total=0, seen=[]) %}{% for i in items %}{% set ns.total = ns.total + i %}{% set ns.seen = ns.seen + [i] %}{% endfor %}{{ ns.total }} {{ ns.seen }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set t %}block {{ name }}{% endset %}{{ t }}{% set u | upper | replace('B', 'x') %}block{% endset %}{{ u }}
{% macro hi(who, mark='!', n=2) %}Hi {{ who }}{{ mark * n }}{% endmacro %}{{ hi('a') }} {{ hi('b', '?') }} {{ hi(who='c', n=1) }} {{ hi() }}
{% macro m(x) %}[{{ 'm' + x + 'n' }}{{ x ~ '!' }}]{% endmacro %}{{ 'a' + m('b' + m('c')) + 'd' + m('e') }}{% set y = 'p' + m('q' + m('r')) + 's' %}{{ y }}{{ y + m(y) }}
{{ 'a' + (html | safe) + '<' }}|{{ ('<' | safe) + '<' + '>' }}|{{ 'x' + 'y' + nothing | string }}|{{ [1] + [2] + [3] }}|{{ 1 + 2 + x }}
{{ 'a' + 'b' + n }}
{{ 'a' + person.missing + 'b' }}
{{ 'abcdefgh' == 'abcdefgi' }}{{ 'abcdefg' == 'abcdefg' }}{{ {'abcdefgh': 1, 'abcdefgi': 2}['abcdefgi'] }}{{ {'': 1}[''] }}{{ 'abcdefgh' == ('abcdefgh' | safe) }}
{{ person.missing is defined }}{{ person['missing'] is defined }}{{ person.items is defined }}{{ person['items'] }}{{ person.missing or 'none' }}{{ (person.missing and 1) is undefined }}
{{ person.missing.deeper }}
{% macro all(a) %}{{ a }} {{ varargs }} {{ kwargs }}{% endmacro %}{{ all(1, 2, 3, k='v') }} {{ all(1) }}
{% macro box(title) %}[{{ title }}: {{ caller('in') }}]{% endmacro %}{% call(x) box('T') %}body {{ x }} {{ name }}{% endcall %}
{% macro fact(k) %}{% if k < 2 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}
{% macro outer() %}{{ shared }}{% endmacro %}{% set shared = 'late' %}{{ outer() }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}
{% filter upper %}shout {{ name }}{% endfilter %} {% filter replace('a', 'b') | title %}banana{% endfilter %}
{% if n > 10 %}big{% elif n > 5 %}middle{% else %}small{% endif %} {% if nothing %}x{% endif %}{% if items %}y{% endif %}
{% raw %}{{ not rendered }} {% if %}{% endraw %} {# a comment {{ x }} #}after
{{ text | trim }}|{{ text | upper }}|{{ 'ab' | capitalize }}|{{ 'hello there-you' | title }}|{{ 'it\\'s o(k' | title }}|{{ 'aXbX' | replace('X', '-', 1) }}
{{ text.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xa'.lstrip('x') }}|{{ 'ax'.rstrip('x') }}|{{ 'A b'.lower() }}|{{ 'a b'.title() }}|{{ 'straße'.upper() }}|{{ 'ÀÉ'.lower() }}|{{ 'hELLO'.capitalize() }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ' a b c '.split(none, 1) }} {{ 'x'.split('<sep>')[-1] }}
{{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'a\\nb\\n'.splitlines(true) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'kv'.partition('=') }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'größer'.find('ß') }} {{ 'hello'.index('e') }} {{ 'banana'.count('an') }} {{ 'aaa'.count('') }} {{ 'hello'.find('l', 3) }}
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith(('lo', 'x')) }} {{ 'hello'.startswith('l', 2) }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'Ab'.isupper() }} {{ 'ab'.islower() }} {{ ''.isdigit() }}
{{ '-'.join(['a', 'b']) }} {{ 'ab'.center(7, '*') }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4, '.') }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'prefix'.removeprefix('pre') }} {{ 'suffix'.removesuffix('fix') }}
{{ '%s is %d and %.2f, %5s|%-5s|%05d %x %%' % ('a', 7, 2.345, 'r', 'l', 42, 255) }} {{ '%s' % name }} {{ '%(k)s' % {'k': 'v'} }} {{ '%s' | format(name) }} {{ '{} {1} {0} {k} {{}}'.format('a', 'b', k='c') if false else '' }}
{{ '{} {}'.format('a', 'b') }} {{ '{1} {0} {k} {{x}}'.format('a', 'b', k='c') }}
{{ items | length }} {{ name | length }} {{ wide | length }} {{ person | length }} {{ nothing | length }} {{ items | first }} {{ items | last }} {{ [] | first }} {{ name | list }} {{ person | list }}
{{ items | sort }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ items | sort(reverse=true) }} {{ people | sort(attribute='age') | map(attribute='name') | join(',') }} {{ person | dictsort | first }}
{{ items | sum }} {{ people | sum(attribute='age') }} {{ items | min }} {{ items | max }} {{ words | max }} {{ [1, 1, 2, 'a', 'A'] | unique | list }} {{ items | reverse | list }} {{ 'abc' | reverse }}
{{ people | map(attribute='name') | list }} {{ words | map('upper') | list }} {{ [1, 2] | map('string') | join('+') }} {{ people | map(attribute='zip', default='-') | join }}
{{ people | selectattr('on') | map(attribute='name') | list }} {{ people | rejectattr('age', 'gt', 10) | list | length }} {{ items | select('odd') | list }} {{ items | reject('equalto', 1) | list }} {{ people | selectattr('name', 'equalto', 'Bob') | first }}
{{ mixed | select('string') | list }} {{ mixed | select('number') | list }} {{ mixed | select | list }} {% if [] | select %}generators are true{% endif %}
{{ items | batch(2) | list }} {{ items | batch(2, 'x') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, 'x') | list }} {% for k, g in people | groupby('age') %}{{ k }}:{{ g | map(attribute='name') | join(',') }};{% endfor %}
{{ items | join(', ') }} {{ people | join('/', attribute='name') }} {{ mixed | join(' ') }} {{ none | default('d') }} {{ nothing | default('d') }} {{ '' | default('d', true) }} {{ nothing | d }}|
{{ '42' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ 4.9 | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ -3 | abs }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(method='ceil') }} {{ true | int }} {{ ' 7 ' | int }}
{{ html | e }} {{ html | escape | length }} {{ html | safe }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' ~ ('<b>' | safe) }} {{ html | e | e }} {{ html | forceescape }} {{ '<x>' | e is escaped }}
{{ text | indent }}|{{ text | indent(2, true) }}|{{ 'a\\n\\nb' | indent(2) }}|{{ 'a\\n\\nb' | indent(2, blank=true) }}|{{ 'a\\nb' | indent('> ') }}
{{ 'one two three four' | truncate(11) }} {{ 'one two three four' | truncate(11, true) }} {{ 'one two' | truncate(11) }} {{ 'one two three' | truncate(8, leeway=0) }} {{ 'a b' | wordcount }} {{ 'ab' | center(6) }}| {{ 'a b/ü' | urlencode }}
{{ person | tojson }} {{ mixed | tojson }} {{ wide | tojson }} {{ wide | tojson(ensure_ascii=true) }} {{ '\\n\\t\\\\"/<' | tojson }} {{ 1.0 | tojson }} {{ big | tojson }} {{ none | tojson }} {{ true | tojson }}
{{ nested | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=4) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {'a': [1, 2]} | tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4} | tojson }}
{{ n is defined }} {{ nothing is defined }} {{ nothing is undefined }} {{ none is none }} {{ n is number }} {{ x is float }} {{ n is integer }} {{ true is integer }} {{ true is boolean }} {{ name is string }} {{ items is iterable }} {{ person is mapping }} {{ items is sequence }} {{ name is sequence }}
{{ 4 is even }} {{ 4 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is ne 1 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 2 is in [1, 2] }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is sameas none }} {{ 1 is not none }} {{ true is true }} {{ false is false }} {{ 'upper' is filter }} {{ range is callable }}
{{ n is defined and n > 3 }} {{ 'yes' if nothing is not defined else 'no' }} {{ n is string or n is number }} {{ not n is string }} {{ 1 is number is defined if false else 'x' }}
{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ dict(a=1, b=2) }} {{ dict([('k', 'v')]) }} {% set j = joiner('; ') %}{% for i in items %}{{ j() }}{{ i }}{% endfor %}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %p %I %y %%') }}
{{ "a" "b" 'c' }} {{ 'q\\'q' }} {{ "tab\\there \\x41 \\u00fc \\101 \\q" }} {{ 'über' }} {{ '{{' }} {{ '%}' }}
{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': {'y': {}}} }}
{{ -2 ** 2 }} {{ -n | abs }} {{ (-n) | abs }} {{ 2 ** 3 ** 2 }} {{ 10 - 2 - 3 }} {{ 2 * 3 % 4 }} {{ 'a' ~ 1 + 2 }} {{ 1 + 2 ~ 'a' }} {{ not 1 in [1] }} {{ 5 - 3 | abs }}
{{ 'it' 's' | upper }} {{ ('a' if n else 'b') | upper }} {{ 'a' if n else 'b' | upper }} {{ 1 if 0 else 2 if 0 else 3 }}
{{ person.tags | join('+') if person.tags is defined else 'none' }} {{ (person.zip or {}).x }} {{ items | map('int') | sum > 3 }} {{ people[0].name.upper()[0] | lower }}
{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ -0.0 }} {{ 1 / 3 }} {{ 3.0 * 2 }} {{ 5 / 5 }} {{ 2.0 ** 3 }}
{{ 'a\\'b' | string | tojson }} {{ ["it's", 'say "x"', 'both \\' "', 'tab\\t', 'é', '\\x00\\x7f', '\\u200b'] }}
{% if 'a' in 'abc' and 1 in [1] or nothing.x %}short{% endif %}{{ (nothing or {}).get('a', 'b') }}
{%- set messages = [{'role': 'user', 'content': 'q'}] -%} {{- messages[0]['role'] | trim -}} {{ messages[-1].content }}
{{ 'a'.replace('', '-') }} {{ 'abc'.replace('b', '') }} {{ '' | replace('', 'x') }} {{ 5 | replace('5', 'five') }}
{{ wide | upper }} {{ wide | lower }} {{ wide | title }} {{ wide | capitalize }} {{ 'ß' | upper }} {{ 'ŉ' | title }}
{{ items | items if false else 'x' }} {% for k, v in person | items %}{{ k }} {% endfor %} {{ person.keys() | list }} {{ person.values() | list | length }}
{% generation %}said {{ name }}{% set inner = 1 %}{% endgeneration %}{{ inner }}
{{ nothing.x }}
{{ nothing + 1 }}
{{ 1 + 'a' }}
{{ 1 < 'a' }}
{{ none | length }}
{{ name() }}
{{ items.append(4) }}
{{ person.update({}) }}
{{ 1 / 0 }}
{{ raise_exception('no ' ~ name) }}
{{ name | nofilter }}
{{ name is notest }}
{{ ns.x }}{% set ns.x = 1 %}
{% set a, b = [1] %}
{{ {[1]: 2} }}
{{ nothing | tojson }}
{% for i in 5 %}{% endfor %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{{ 'a'.index('b') }}
{{ items | first | x }}
{{ range(100001) }}
""".strip("\n").split("\n")

BLOCKS = [
    "a\n  {% if true %}  \n  b\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}  \n  b\n  {%- endif %}\nc\n\n",
    "a\n  {%+ if true +%}\n  b\n  {% endif %}  c\n",
    "  {# gone #}\n  {{ name }}\n  {{- name -}}  \n x",
    "{% for i in items %}\n  {{ i }}\n{% endfor %}\nend",
    "{% for i in items -%}\n  {{ i }}\n{%- endfor %}\nend",
    "x {% if true %}\ny{% endif %}\nz",
    "{%- raw -%}  {{ a }}  {%- endraw -%}  b",
    "a {% raw %}\n {{ a }}\n {% endraw %}\nb",
    "{#- c -#} x {#\n multi\n#}\ny",
    "\r\nline\rother\r\n",
    "a\u00a0{%- if true %} b{% endif %}",
    "{% set x = 1 %}\n\n{{ x }}\n\n",
    "{{ 'a' }}\n{{ 'b' }}\n",
    "\t{% if true %}tab{% endif %}\t\n",
    "{%if true%}tight{%endif%}{{name}}",
    "{%- if true %}\n    {%- if true %}\n        {{- 'in' }}\n    {%- endif %}\n{%- endif %}\n",
    "{# unclosed",
    "{{ unclosed",
    "{% if true %}unclosed",
    "{% raw %}unclosed",
    "{{ 'unclosed }}",
    "{% endif %}",
    "{% else %}",
    "{% nonsense %}",
    "{{ }}",
    "{{ a b }}",
    "{{ (1 }}",
    "{{ [1, 2 }}",
    "{{ 1 +  }}",
    "{{ a. }}",
    "{{ $ }}",
    "{% for in x %}{% endfor %}",
    "{% set 1 = 2 %}",
    "{% set true = 2 %}",
    "{% break %}",
    "{{ f(a=1, 2) }}",
]


def main():
    env = environment()
    print(json.dumps(VARIABLES, ensure_ascii=False))
    for source in TEMPLATES + BLOCKS:
        case = {"template": source}
        try:
            case["text"] = env.from_string(source).render(**VARIABLES)
        except Exception as error:  # whatever Python raises is a refusal
            case["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(case, ensure_ascii=False))


if __name__ == "__main__":
    main()
