"""Responses for parse_response, good and bad. {END} is what ends a message, {EOS} the tokenizer's end of a text."""

END = "{END}"
COMMON = [
    "", "{END}", "a", "a{END}", "a{END}b", "a{END}{END}", " a \n\n{END}", "é🦄{END}",
    "<think>r</think>a{END}", "r</think>a{END}", "<think>\nr\n</think>\n\na{END}", "\nr\n</think>\n\na{END}", "</think>a{END}",
    "\n</think>\n\na{END}", "<think></think>\n\na{END}", "<think>\n\n</think>\n\na{END}", "<think>r{END}", "<think>r</think>{END}",
    "<think>r</think>\n\n\n a{END}", "x<think>r</think>y<think>s</think>z{END}", "<think> r </think> \n a{END}", "<think>r</think>a",
    "<think>r", "a<think></think>{END}", "<think>r</think>\na\n{END}",
]  # fmt: skip
JSON_CALLS = [
    '<tool_call>\n{"name": "f", "arguments": {"z": 1, "a": [1, 2.50, "é"]}}\n</tool_call>{END}',
    't\n<tool_call>{"name":"f","arguments":{},"id":"i1"}</tool_call>u<tool_call>{"name":"g","arguments":{}}</tool_call>{END}',
    "<tool_call>{bad</tool_call>{END}",
    "<tool_call>[1]</tool_call>{END}",
    '<tool_call>{"arguments":{}}</tool_call>{END}',
    '<tool_call>{"name":"f","arguments":"x"}</tool_call>{END}',
    '<tool_call>{"name":"f","arguments":{}}{END}',
    "<tool_call>x</tool_call><tool_call>y{END}",
    '<think><tool_call>{"name":"f","arguments":{}}</tool_call></think>a{END}',
    '<think>r</think><tool_call>{"name":"f","arguments":{}}</tool_call>',
    '<tool_call>{"name":"f","arguments":{"a":1,"a":2,"n":NaN}}</tool_call>{END}',
    "<tool_call></tool_call>{END}",
    "</tool_call>a{END}",
]


def xml(body):
    return f"<tool_call>{body}</tool_call>"


JSON_CALL = xml('{"name":"j","arguments":{}}')
XML_CALL = xml("<function=f></function>")
XML_CALLS = [
    xml("\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\ny\n</parameter>\n</function>\n") + END,
    "r\n</think>\n\nt\n\n" + xml("\n<function=f>\n</function>\n") + END,
    xml(
        '<function=f><parameter=a>{"k": [1]}</parameter><parameter=b>True</parameter><parameter=c>"q"</parameter>'
        "<parameter=d></parameter></function>"
    )
    + END,
    xml("<function=f>junk<parameter=a>1</parameter></function>") + END,
    xml("<function=f><parameter=a>1</parameter>junk</function>") + END,
    xml("<function= ></function>") + END,
    xml("<function=f><parameter= >1</parameter></function>") + END,
    xml("<function=f>") + END,
    xml("<function=f><parameter=a>1</function>") + END,
    "<tool_call><function=f></function>" + END,
    JSON_CALL + XML_CALL + END,
    XML_CALL + JSON_CALL + END,
    xml("<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>") + END,
    xml("\n<function=f>\n<parameter=a>\n  1  \n</parameter>\n</function>\nextra") + END,
    "r</think>\n" + XML_CALL + END,
]


def deepseek_calls(body):
    return f"<｜tool▁calls▁begin｜>{body}<｜tool▁calls▁end｜>"


def deepseek_call(name, arguments):
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


DEEPSEEK_V3 = [
    "t" + deepseek_calls(deepseek_call("f", '{"a": 1}') + deepseek_call("g", " {} ")) + END,
    deepseek_calls(deepseek_call("f", "{bad") + deepseek_call("g", "[1]")) + END,
    deepseek_calls(deepseek_call("f-g", "{}")) + END,
    "<think>r</think> t \n" + deepseek_calls(deepseek_call("f", "{}")) + END,
    "a<｜tool▁calls▁begin｜>" + deepseek_call("f", "{}") + END,
    deepseek_calls("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}") + END,
    "a" + deepseek_calls("") + "b" + END,
    deepseek_calls(deepseek_call("f", "{}")) + " x " + deepseek_calls(deepseek_call("g", "{}")) + END,
    deepseek_calls(deepseek_call("é", "1")) + END,
]


def dsml_calls(body):
    return f"\n\n<｜DSML｜ calls>\n{body}\n</｜DSML｜ calls>"


def dsml_call(name, parameters):
    return f'<｜DSML｜ invoke name="{name}">\n{parameters}\n</｜DSML｜ invoke>'


def dsml_parameter(name, is_string, value):
    return f'<｜DSML｜ parameter name="{name}" string="{is_string}">{value}</｜DSML｜ parameter>'


DEEPSEEK_V4 = [
    "r</think>t"
    + dsml_calls(dsml_call("f", dsml_parameter("a", "true", "x") + "\n" + dsml_parameter("b", "false", "[1, 2.50]")) + "\n" + dsml_call("g", ""))
    + END,
    "t" + dsml_calls(dsml_call("f", dsml_parameter("a", "false", "{bad")) + dsml_call("g", "")) + END,
    dsml_calls(dsml_call(" ", "")) + END,
    dsml_calls(dsml_call("f", "junk")) + END,
    dsml_calls(dsml_call("f", dsml_parameter("a", "true", "1") + dsml_parameter("a", "true", "2"))) + END,
    dsml_calls(dsml_call("f", dsml_parameter(" ", "true", "1"))) + END,
    dsml_calls("junk") + END,
    dsml_calls(dsml_call("f", "") + "junk") + END,
    dsml_calls("") + END,
    dsml_calls(dsml_call("f", "")) + " after" + END,
    dsml_calls(dsml_call("f", "")) + "  \n" + END,
    "a\n\n<｜DSML｜ calls>\n" + dsml_call("f", "") + END,
    "a ｜DSML｜ b" + END,
    "t" + dsml_calls(dsml_call("f", "")) + dsml_calls(dsml_call("g", "")) + END,
]


def glm_call(name, **arguments):
    pairs = (f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in arguments.items())
    return f"<tool_call>{name}{''.join(pairs)}</tool_call>"


GLM = [
    "r</think>t" + glm_call("f", a="1", b="x y", c='{"k": 1}') + "<|observation|>",
    glm_call("f.g-h") + glm_call("i") + "<|observation|>",
    glm_call("f g") + END,
    "<tool_call>f junk<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>" + END,
    "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>junk</tool_call>" + END,
    glm_call("f", **{" ": "1"}) + END,
    "<tool_call>f" + END,
    "<tool_call></tool_call>" + END,
    "a<|endoftext|>",
    "r</think>a<|endoftext|>",
    "a<|user|><|observation|>",
    "a<|system|>" + END,
]


def kimi_calls(body, section="tool_calls_section"):
    return f"<|{section}_begin|>{body}<|{section}_end|>"


def kimi_call(call_id, arguments):
    return f"<|tool_call_begin|>{call_id}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


KIMI = [
    "r</think>t" + kimi_calls(kimi_call("functions.f:0", '{"a": 1}') + kimi_call(" functions.a.b:1 ", " {} ")) + "after" + END,
    kimi_calls(kimi_call("functions.f:0", "{bad")) + END,
    kimi_calls(kimi_call("f:3", "{}")) + END,
    kimi_calls(kimi_call("f", "{}")) + END,
    kimi_calls(kimi_call("functions.f:0", "{}"), "tool_call_section") + END,
    "t<|tool_calls_section_begin|>" + kimi_call("functions.f:0", "{}") + END,
    kimi_calls("<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}") + END,
    kimi_calls("") + END,
]


def harmony(channel, body, end="<|end|>"):
    return f"<|channel|>{channel}<|message|>{body}{end}"


def harmony_call(name, arguments, end="<|call|>"):
    return f" to=functions.{name}<|channel|>commentary <|constrain|>json<|message|>{arguments}{end}"


ASSISTANT = "<|start|>assistant"
FINAL = harmony("final", "a", "<|return|>")
GPT_OSS = [
    FINAL,
    harmony("analysis", "r") + ASSISTANT + FINAL,
    harmony("analysis", "r") + ASSISTANT + harmony_call("f", '{"a": 1} '),
    harmony_call("f", "{}"),
    harmony("commentary", "t") + ASSISTANT + harmony_call("f", "{}"),
    harmony_call("f", "{bad"),
    harmony_call("f", ""),
    harmony_call("f", "{}", "<|return|>"),
    "a<|return|>",
    "<|channel|>final<|message|>a",
    FINAL * 2,
    harmony_call("f", "{}") * 2,
    harmony("final", "a", "<|call|>") + "x<|return|>",
    harmony("other", "a", "<|return|>"),
    harmony("final", "   ", "<|return|>"),
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>analysis to=functions.f<|message|>{}<|call|>",
    ASSISTANT + " to=functions.f<|call|>",
    harmony("final", "a", "<|end|>") + "<|return|>",
    "<|return|>",
    "<|message|>a<|return|>",
    " to=browser.search<|channel|>analysis<|message|>{}<|call|>",
]

ROLE_COLON = [
    "{EOS}", " a{EOS}", " a\n\nUser:", " a\n\nUser:{EOS}", " a\n\nUser: b\n\nUser:", "a", "a\n\nUser", "  a \n\n\n\nUser:", " \n\nUser:",
    " a\n\n", "{EOS}{EOS}",
]  # fmt: skip


def inkling(kind, body, name="", author="model"):
    return f"<|message_{author}|>{name}<|content_{kind}|>{body}<|end_message|>"


def inkling_call(arguments, name="f"):
    return inkling("invoke_tool_json", arguments, name)


# Left out: a call in plain text ("invoke_tool_text"), on which the official parser fails where it should say that it is malformed.
SAMPLED = "<|content_model_end_sampling|>"
INKLING = [
    inkling("text", "a") + SAMPLED,
    inkling("text", "a"),
    "<|message_model|><|content_text|>a",
    "<|message_model|><|content_text|>a" + SAMPLED,
    "a<|end_message|>" + SAMPLED,
    "<|content_text|>a<|end_message|>" + SAMPLED,
    SAMPLED,
    "",
    "<|message_model|>",
    inkling("text", "") + SAMPLED,
    inkling("thinking", "r") + inkling("text", "é🦄") + SAMPLED,
    inkling("text", "a") + inkling("thinking", "r") + inkling("text", "b") + SAMPLED,
    inkling("text", "a") + inkling("text", "b") + SAMPLED,
    inkling("thinking", "r") + SAMPLED,
    inkling_call('{"name":"f","args":{"z":1,"a":[1,2.50]}}') + SAMPLED,
    inkling_call('{"name":"f","args":{}}', "g") + SAMPLED,
    inkling_call('{"name":"f","args":{}}', "") + SAMPLED,
    inkling_call('{"args":{}}') + SAMPLED,
    inkling_call('{"name":"f"}') + SAMPLED,
    inkling_call('{"name":1,"args":{}}') + SAMPLED,
    inkling_call('{"name":"f","args":[1]}') + SAMPLED,
    inkling_call("{bad") + SAMPLED,
    inkling_call('{"name":"f","args":{"a":1,"a":2}}') + SAMPLED,
    inkling_call('{"name":"f","args":{},"x":1}') + SAMPLED,
    inkling_call(' {"name": "f", "args": {} } ') + SAMPLED,
    inkling_call("[]") + SAMPLED,
    inkling("text", "t") + inkling_call('{"name":"f","args":{}}') + inkling_call('{"name":"g","args":{}}', "g") + SAMPLED,
    inkling_call('{"name":"f","args":{}}') + inkling("text", "after") + SAMPLED,
    inkling("text", "a", author="user") + SAMPLED,
    inkling("text", "a", "f", author="tool") + SAMPLED,
    inkling("xml", "x") + SAMPLED,
    inkling("text", "a", "name") + SAMPLED,
    inkling("text", "a") + SAMPLED * 2,
    inkling("text", "a") + SAMPLED + inkling("text", "b") + SAMPLED,
    inkling("text", "a<|content_thinking|>b") + SAMPLED,
    inkling("tool_error", "raw") + SAMPLED,
]

# By how the names of renderers begin.
OF_FAMILY = [
    (("qwen", "nemotron", "glm"), JSON_CALLS),
    (("qwen3_5", "qwen3_8", "nemotron"), XML_CALLS),
    (("deepseekv3",), DEEPSEEK_V3),
    (("deepseekv4",), DEEPSEEK_V4),
    (("glm",), GLM),
    (("kimi",), KIMI),
    (("gpt_oss",), GPT_OSS),
    (("role_colon",), ROLE_COLON),
]


def responses_of(renderer):
    if renderer == "tml_v0":
        return INKLING
    return COMMON + [response for prefixes, responses in OF_FAMILY if renderer.startswith(prefixes) for response in responses]
